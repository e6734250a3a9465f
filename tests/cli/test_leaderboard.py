"""Leaderboards of the cases of runs, and the command that writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as replace_fields
from record_factory import entry, file_of, measured, record, run_record

from grb_check.__main__ import main
from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import node_id_of
from grb_check.cases.outcomes import Outcome
from grb_check.cli.leaderboard import boards_of
from grb_check.errors import UsageError
from grb_check.ranking.boards.board import NO_ATTACK, Cell
from grb_check.ranking.boards.files import measured_board, read_board
from grb_check.reports.record import RunRecord
from grb_check.settings.model_specs import ModelSpec

MINE, OURS = "mine", "gcn"
TARGETS = {MINE: "mypkg:build", OURS: "grb_check.models:gcn"}


def case(model: str, attack: str, level: str = "easy") -> Case:
    return Case("synthetic-cora", level, "injection", attack, model)


def row(of: Case, outcome: Outcome | None = None, node_id: str = "") -> CaseRecord:
    """A built-in case that came back."""
    result = "pass" if outcome is not None else "error"
    return CaseRecord(id=of.id, node_id=node_id or node_id_of(of), result=result, outcome=outcome)


def rows(*attacks: str, level: str = "easy") -> list[CaseRecord]:
    """Both models under each attack."""
    return [
        row(of, measured(of, drop, model))
        for model, drop in ((MINE, 0.2), (OURS, 0.5))
        for of in (case(model, attack, level) for attack in attacks)
    ]


def run(cases: Sequence[CaseRecord], split: str = "grb", width: int = 4) -> tuple[str, RunRecord]:
    """A run of these cases, of two models."""
    recorded_run = run_record(record([], environment={"grb_check": "0.1.0", "torch": "9"}))
    arguments = {MINE: f"{{'width': {width}}}", OURS: "{}"}
    models = [
        ModelSpec(label=label, target=target, args=arguments[label])
        for label, target in TARGETS.items()
    ]
    settings = replace(recorded_run.settings, models=tuple(models), split=split)
    return "run.json", replace_fields(recorded_run, cases=tuple(cases), settings=settings)


def test_a_board_has_the_figures_of_the_cases() -> None:
    """Each repeat; reference models have their titles; `worst` and tests of users are left out."""
    worst, foreign = case(MINE, "worst"), Case("elsewhere", "easy", "injection", "rnd", MINE)
    more = [row(worst, measured(worst, 0.9, MINE))]
    more += [row(foreign, measured(foreign, 0.9, MINE), node_id="tests/test_own.py::test_own")]
    (board,) = boards_of([run([*rows("rnd", "pgd"), *more])])
    assert board.defences == (MINE, "GCN")
    assert board.models == {MINE: "mypkg:build", "GCN": "gcn v1"}
    assert board.attacks == ("injection/rnd", "injection/pgd")
    assert (board.difficulties, board.split) == (("easy",), "grb")
    result = measured(case(MINE, "pgd"), 0.2, MINE)
    attacked = Cell.of([repeat.victim.attacked for repeat in result.repeats])
    assert board.cells["injection/pgd"][MINE]["easy"] == attacked
    assert board.cells[NO_ATTACK][MINE]["easy"].mean == pytest.approx(0.8)
    assert len(board.cells) == 3
    assert "measured with grb_check 0.1.0, torch 9" in board.about
    assert "model mine: mypkg:build(width=4)" in board.about


def test_runs_are_put_together() -> None:
    """Of other attacks, difficulties or models."""
    first, second = rows("rnd"), rows("rnd", level="full")
    (board,) = boards_of([run(second), run(first)])
    assert board.difficulties == ("easy", "full")
    assert list(board.cells["injection/rnd"][MINE]) == ["full", "easy"]


def test_a_model_that_lacks_a_case_is_left_out() -> None:
    """A rank over other attacks than those of the others would say nothing."""
    failed = row(case(MINE, "pgd"))
    complete = [
        case_record for case_record in rows("rnd", "pgd") if case_record.case != failed.case
    ]
    (board,) = boards_of([run([*complete, failed])])
    assert board.defences == ("GCN",)
    assert set(board.models) == {"GCN"}
    assert f"left out {MINE}: no figures under injection/pgd at easy" in board.about
    with pytest.raises(UsageError, match="no model is left"):
        boards_of([run([failed])])


def _other_data(case_record: CaseRecord) -> CaseRecord:
    assert case_record.outcome is not None
    return replace_fields(case_record, outcome=replace(case_record.outcome, dataset="a" * 64))


def _fewer(case_record: CaseRecord) -> CaseRecord:
    assert case_record.outcome is not None
    return replace_fields(
        case_record, outcome=replace(case_record.outcome, repeats=case_record.outcome.repeats[:1])
    )


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([run(rows("rnd")), run(rows("rnd"))], "mine under injection/rnd at easy is in another"),
        ([run(rows("rnd")), run([*map(_other_data, rows("pgd"))])], "fingerprint is"),
        ([run(rows("rnd")), run([*map(_fewer, rows("pgd"))])], "number of repeats is 1 and 3"),
        ([run(rows("rnd")), run(rows("pgd"), width=8)], r"mine is \(width=4\) and \(width=8\)"),
        ([run([])], "there are no cases"),
    ],
)
def test_runs_that_do_not_fit_together_are_refused(
    runs: Sequence[tuple[str, RunRecord]], message: str
) -> None:
    """Their accuracies cannot be ranked with each other."""
    with pytest.raises(UsageError, match=message):
        boards_of(runs)


@pytest.fixture
def record_file(tmp_path: Path) -> Path:
    cases = [case_record for case_record in rows("rnd", "pgd") if case_record.outcome is not None]
    path = tmp_path / "run.json"
    path.write_text(
        file_of(record([entry(case_record.case, case_record.outcome) for case_record in cases]))
    )
    return path


def test_the_command_writes_the_board_in_two_forms(
    record_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the data folder, where ranks are looked up."""
    monkeypatch.setenv("GRB_CHECK_DATA", str(tmp_path / "home"))
    assert main(["leaderboard", str(record_file)]) == 0
    folder = tmp_path / "home" / "leaderboards"
    written = [folder / f"synthetic-cora.{kind}" for kind in ("json", "md")]
    assert capsys.readouterr().out.split() == list(map(str, written))
    board = read_board(written[0])
    assert set(board.defences) == {OURS, MINE}
    assert any(line.startswith("measured with grb_check 0.1.0, ") for line in board.about)
    assert measured_board("synthetic-cora", tmp_path / "home") is not None
    assert "# Leaderboard: synthetic-cora" in written[1].read_text("utf-8")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["{run}", "{run}"], "given twice"),
        (["nowhere.json"], "nowhere.json"),
        ([__file__], "run record"),
        (["{run}", f"--out={__file__}"], "--out"),
    ],
)
def test_an_error_is_one_message(
    record_file: Path, given: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is written."""
    assert main(["leaderboard", *(argument.format(run=record_file) for argument in given)]) == 4
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
