"""The table under pytest's report, compared whole."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import msgspec
from outcome_factory import CASE, finding, outcome
from record_factory import (
    ENVIRONMENT,
    SETTINGS,
    compared,
    entry,
    measured,
    record,
    rich,
    run_record,
    view,
)

from grb_check.cases.case import Case
from grb_check.cases.expected_cases import ExpectedCases
from grb_check.cases.node_ids import node_id_of
from grb_check.cases.outcomes import Outcome
from grb_check.cases.shards import Plan
from grb_check.gate.limits import Gate, Threshold, judge
from grb_check.ranking.run_ranks import Ranks
from grb_check.ranking.standing import Standing
from grb_check.reports import terminal
from grb_check.reports.digest import digest
from grb_check.reports.record import RunSettings
from grb_check.reports.recording import record_of


class Screen:
    """Collects the lines that a terminal reporter would show."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str, **_: bool) -> None:
        self.lines.append(f"== {title}")

    def write_line(self, line: str, **_: bool) -> None:
        self.lines.append(line)


def shown(
    *entries: tuple[Case, Outcome | None], gate: Gate | None = None, ranks: Ranks | None = None
) -> list[str]:
    expected_cases = ExpectedCases()
    for case, made in entries:
        fields = {"case": asdict(case), "outcome": None, "verdict": None}
        result = "error"
        if made is not None:
            verdict = judge(made, gate or Gate(max_drop=0.55))
            fields |= {"outcome": made.to_dict(), "verdict": asdict(verdict)}
            result = "pass" if verdict.passed else "fail"
        expected_cases.enter(node_id_of(case), fields, result, "")  # type: ignore[arg-type]
    made_of = record_of(
        msgspec.convert(SETTINGS, RunSettings),
        expected_cases.rows,
        missing=(),
        plan=Plan(),
        ranks=ranks or Ranks(),
        verdicts=(),
        baseline=None,
        environment=ENVIRONMENT,
    )
    screen = Screen()
    terminal.write_run(screen, digest(made_of))
    return screen.lines


def test_the_table_shows_every_case_in_order_with_its_verdict() -> None:
    """Passed, failed, failed for its clean accuracy, and ended in an error."""
    reference = [(0.8, 0.6), (0.8, 0.6)]
    hard = Case("synthetic-cora", "hard", "modification", "rnd")
    dice = Case("synthetic-cora", "hard", "modification", "dice")
    floor = Case("synthetic-cora", "medium", "injection", "pgd")
    lines = shown(
        (dice, None),
        (hard, outcome([(0.8, 0.2), (0.8, 0.2)], reference, hard)),
        (floor, outcome([(0.3, 0.3), (0.3, 0.3)], reference, floor)),
        (CASE, outcome([(0.8, 0.6), (0.8, 0.58)], reference)),
    )
    assert lines == [
        "== graph robustness",
        "mypkg:build on synthetic-cora (made for tests)",
        "  difficulty  attack             clean  attacked   drop          limit  verdict",
        "  easy        injection/pgd      80.0%     59.0%  26.3%  +- 1.8  55.0%  pass",
        "  medium      injection/pgd      30.0%     30.0%   0.0%  +- 0.0  55.0%  fail (clean)",
        "  hard        modification/rnd   80.0%     20.0%  75.0%  +- 0.0  55.0%  fail",
        "  hard        modification/dice      -         -      -              -  error",
        "",
        "attacks by mean drop: 1. modification/rnd 75.0%, 2. injection/pgd 13.1%",
        "no delta to the reference GCN: the clean accuracy of mypkg:build is below the floor",
    ]


def test_the_baseline_its_pin_and_an_update_have_a_line_each() -> None:
    """Verdicts on all cases together, then the losses that the update accepts."""
    lines = terminal.baseline_lines(run_record(rich()))
    assert lines[1:5] == [
        "baseline, 14 of 15 cases of synthetic-cora: the comparison says fail",
        "pin, 14 of 15 cases of synthetic-cora: no loss beyond 2 points since the pin v1",
        "update, all 15 cases of synthetic-cora: loss 0.7 points against the replaced baseline",
        "update, 12 of 15 cases of synthetic-cora: loss 1.6 points against the pin v1",
    ]


def test_ranks_under_each_attack_are_a_column_of_the_table() -> None:
    """If a leaderboard has the attack; other reports have further leaderboards."""
    dice = Case("synthetic-cora", "easy", "modification", "dice")
    standing = Standing(
        board="zoo",
        dataset="synthetic-cora",
        difficulty="easy",
        attack="injection/pgd",
        figure=0.6,
        rank=12,
        competitors=17,
        better=None,
        worse=None,
        attacks=1,
        missing=(),
    )
    ranks = Ranks(
        of_cases={node_id_of(CASE): (standing,), node_id_of(dice): ()}, notes=("said once",)
    )
    reference = [(0.8, 0.6)]
    lines = shown(
        (CASE, outcome([(0.8, 0.6)], reference)),
        (dice, outcome([(0.8, 0.6)], reference, dice)),
        ranks=ranks,
    )
    assert [line.split("  ")[-2:] for line in lines[2:5]] == [
        ["rank (zoo)", "verdict"],
        ["12 of 17", "pass"],
        [" -", "pass"],
    ]
    assert lines[-1] == "note: said once"


def test_what_passed_without_evidence_is_told_apart_with_the_reason() -> None:
    """In the column of verdicts, and in a note for each reason."""
    levels = ("easy", "medium", "hard")
    warned, unshown, unjudged = (Case("d", level, "injection", "pgd") for level in levels)
    lines = shown(
        (warned, outcome([(0.8, 0.4)] * 3, [(0.8, 0.6)] * 3, warned)),
        (unshown, outcome([(0.8, 0.4), (0.8, 0.4), (0.8, 0.7)], [(0.8, 0.5)] * 3, unshown)),
        (unjudged, outcome([(0.8, 0.15)] * 3, [(0.8, 0.15)] * 3, unjudged)),
        gate=Gate(thresholds=(Threshold("d/easy/*", 0.3, warn=True),)),
    )
    words = [line.rpartition("%  ")[2] for line in lines[3:6]]
    assert words == ["warn", "not shown", "not judged"]
    notes = [line for line in lines if line.startswith("note: ")]
    assert [note.partition(" (")[0] for note in notes] == [
        "note: not judged: 1 case",
        "note: not shown: 1 case",
        "note: warn: 1 case",
    ]


def at(attack: str, attacked: float, **more: object) -> tuple[Case, Outcome]:
    """A case of that name, and its outcome with further fields of its repeat."""
    case = Case("d", "easy", "modification", attack)
    made = outcome([(0.8, attacked)], [(0.8, attacked)], case)
    return case, replace(made, repeats=(replace(made.repeats[0], **more),))  # type: ignore[arg-type]


def test_a_doubtful_case_has_a_question_mark_and_each_diagnostic_one_line() -> None:
    """With the most extreme figure and the cases; in strict mode the case fails."""
    entries = [
        at("rnd", 0.7),
        at("dice", 0.7, diagnostics=(finding("no-gradient", 0.2),)),
        at("flip", 0.7, diagnostics=(finding("no-gradient", 0.9), finding("no-effect", 0.1))),
        at("nea", 0.7, diagnostics=(finding("no-gradient", 0.3),)),
    ]
    lines = shown(*entries)
    assert [line.rsplit("  ", 1)[1] for line in lines[3:7]] == ["pass", *["pass ?"] * 3]
    assert lines[-2:] == [
        "diagnostic: no-effect (d/easy/modification/flip): 0.1 beyond 1.64; "
        "docs/explanation/diagnostics.md#no-effect",
        "diagnostic: no-gradient (d/easy/modification/flip, d/easy/modification/nea and 1 more): "
        "0.9 beyond 0.1; docs/explanation/diagnostics.md#no-gradient",
    ]
    strict = shown(*entries, gate=Gate(max_drop=0.55, strict_diagnostics=True))
    assert strict[3].endswith("  pass")
    assert strict[5].endswith("  fail (no-effect, no-gradient)")


def test_notes_of_attacks_name_their_cases() -> None:
    """The same note on several cases is one line."""
    text = "prbcd: no structure gradient of this model: score-based search instead"
    other = at("worst", 0.4, notes=("worst of 2: dice",), member="dice", per_target=0.25)
    lines = shown(at("rnd", 0.7, notes=(text,)), at("dice", 0.7, notes=(text,)), other)
    assert [line for line in lines if line.startswith("note")] == [
        f"note: {text} (d/easy/modification/rnd, d/easy/modification/dice)",
        "note: worst case per target: 25.0% of the targets stay right under every one of these "
        "attacks (d/easy/modification/worst)",
        "note: worst of 2: dice (d/easy/modification/worst)",
    ]


def test_each_curve_is_a_line() -> None:
    """From the smallest budget; one budget gives no curve."""
    budgets = [("0.1", 0.4), ("0.01", 0.72), ("1e-05", 0.8)]
    lines = shown(
        *(at(f"rnd+budget={budget}", attacked) for budget, attacked in budgets),
        at("dice+budget=0.1", 0.4),
        at("rnd", 0.4),
    )
    assert [line for line in lines if line.startswith("drop by budget")] == [
        "drop by budget, d/easy/modification/rnd: 1e-05 -> 0.0%, 0.01 -> 10.0%, 0.1 -> 50.0%"
    ]


def test_the_strongest_attack_and_the_delta_have_a_line_each() -> None:
    """The first below its table, the second at the end."""
    lines = shown(at("rnd", 0.7), at("dice", 0.4))
    assert lines[5:] == [
        "",
        "  lowest accuracy    black-box  (GCN)          adaptive  (GCN)",
        "  easy/modification  40.0%      (40.0%)  dice  -",
        "",
        "attacks by mean drop: 1. modification/dice 50.0%, 2. modification/rnd 12.5%",
        "delta to the reference GCN over 1 dataset: +0.0 points",
    ]


def table(*entries: dict[str, Any]) -> list[list[str]]:
    """Return the cells of the table of these cases, its heading first."""
    screen = Screen()
    terminal.write_run(screen, view(record(entries)))
    return [line.split() for line in screen.lines[2 : 3 + len(entries)]]


def three() -> list[dict[str, Any]]:
    """A failed case, one with a loss, and an error, in the order of cases."""
    cases = [Case("d", "easy", "modification", name) for name in ("rnd", "dice", "flip")]
    return [
        entry(cases[0], measured(cases[0], 0.2), comparison=compared("pass", loss=1.0)),
        entry(cases[1], measured(cases[1], 0.4, clean=0.9), comparison=compared("equal", loss=0.0)),
        entry(cases[2], None),
    ]


def test_columns_are_those_that_have_something_to_show() -> None:
    """Here the loss to a baseline, and no rank; a case without figures has dashes."""
    rows = table(*three())
    usual = ["clean", "attacked", "drop", "limit", "loss", "(baseline)", "verdict"]
    assert rows[0] == ["difficulty", "attack", *usual]
    assert rows[3] == ["easy", "modification/flip", *["-"] * 5, "error"]
