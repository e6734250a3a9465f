"""The table under pytest's report, compared whole."""

from __future__ import annotations

from dataclasses import asdict

from outcome_factory import CASE, outcome

from grb_check.cases import Case
from grb_check.datasets import Places
from grb_check.gates import Gate, judge
from grb_check.ledger import Ledger, Row
from grb_check.outcomes import Outcome
from grb_check.reports import terminal
from grb_check.settings import Settings


class Screen:
    """Takes the lines that a terminal reporter would show."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str, **_: bool) -> None:
        self.lines.append(f"== {title}")

    def write_line(self, line: str, **_: bool) -> None:
        self.lines.append(line)


def shown(*entries: tuple[Case, Outcome | None]) -> list[str]:
    ledger = Ledger()
    for case, made in entries:
        record = {"case": asdict(case), "outcome": None, "verdict": None}
        result = "error"
        if made is not None:
            verdict = judge(made, Gate())
            record |= {"outcome": made.to_dict(), "verdict": asdict(verdict)}
            result = "pass" if verdict.passed else "fail"
        ledger.enter(case.id, record, result, "")
    screen = Screen()
    rows: list[Row] = ledger.rows
    terminal.write_table(screen, rows, no_models())  # type: ignore[arg-type]
    return screen.lines


def no_models() -> Settings:
    return Settings(
        models=(),
        suite="smoke",
        datasets=(),
        difficulties=(),
        attacks=(),
        patterns=(),
        repeats=1,
        gate=Gate(),
        places=Places(),
        store=None,
        device="cpu",
        json=None,
        origins={},
    )


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
        "  easy        injection/pgd      80.0%     59.0%  26.3%  +- 1.8  37.9%  pass",
        "  medium      injection/pgd      30.0%     30.0%   0.0%  +- 0.0  30.0%  fail (clean)",
        "  hard        modification/rnd   80.0%     20.0%  75.0%  +- 0.0  30.0%  fail",
        "  hard        modification/dice      -         -      -              -  error",
        "",
        "attacks by mean drop: 1. modification/rnd 75.0%, 2. injection/pgd 13.1%",
    ]


def test_an_interval_that_leaves_the_gate_toothless_is_said() -> None:
    """A model that is lucky in one repeat gets a wide limit; nobody should read it as robust."""
    made = outcome([(0.8, 0.4), (0.8, 0.4), (0.8, 0.78)], [(0.8, 0.4)] * 3)
    assert any(
        "the repeats of 1 case vary so much" in line and CASE.id in line
        for line in shown((CASE, made))
    )
