"""The simulation counts useful work only, and the recording extrapolates by sizes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rows import Row
from benchmarks.scheduling import record, simulate
from grb_check.cases.case import Case
from grb_check.execution.planning import Durations, Part, plan

CASES = [Case("tiny", level, "injection", name) for level in ("easy", "full") for name in "abc"]


def test_a_second_training_of_a_victim_is_not_useful() -> None:
    """Six cases of 10 s and a training of 20 s, in one part and in two."""
    truth = Durations(cases={case.id: 10.0 for case in CASES}, training={"tiny": 20.0})
    run = dict.fromkeys(CASES, 1)
    whole = [Part(cases=tuple(CASES), seed=0, seconds=80.0)]
    found = simulate.simulate(run, truth, whole, 2)
    assert (found.seconds, found.efficiency, found.bound) == (80.0, 0.5, 1.0)
    halves = [Part(cases=tuple(CASES[at : at + 3]), seed=0, seconds=50.0) for at in (0, 3)]
    found = simulate.simulate(run, truth, halves, 2)
    assert (found.seconds, found.efficiency) == (50.0, 0.8)
    assert simulate.simulate(run, truth, halves, 8).bound == pytest.approx(80 / (8 * 30))
    with pytest.raises(ValueError, match="each case and repeat once"):
        simulate.simulate(run, truth, halves[:1], 2)


@given(
    st.lists(st.floats(0.1, 100), min_size=6, max_size=6),
    st.floats(0.1, 100),
    st.integers(1, 4),
    st.integers(1, 9),
)
def test_no_plan_exceeds_the_bound(
    seconds: list[float], training: float, repeats: int, workers: int
) -> None:
    """Nor does it lose or repeat a case."""
    times = {case.id: each for case, each in zip(CASES, seconds, strict=True)}
    truth = Durations(cases=times, training={"tiny": training})
    run = dict.fromkeys(CASES, repeats)
    found = simulate.simulate(run, truth, plan(run, truth, workers), workers)
    assert 0 < found.efficiency <= found.bound + 1e-9 <= 1 + 1e-9


def test_what_was_not_measured_is_extrapolated_and_marked() -> None:
    """Seconds that are linear in the sizes are found again."""

    def row(name: str, cell: str) -> Row:
        preset, share = record.sizes()[name], 0.3 if cell.startswith("full") else 0.1
        targets = round(share * preset.num_nodes)
        seconds = 0.5 + preset.num_edges / 1000 + targets / 100
        size = {"nodes": preset.num_nodes, "edges": preset.num_edges, "targets": targets}
        return {"dataset": name, "what": cell, **size, "cold": seconds, "warm": 0.0}

    first, second, third, *_ = record.sizes()
    cells = [cell for cell in record.cells() if cell.endswith("/injection/pgd")]
    known = [row(name, cell) for name in (first, second) for cell in cells]
    known.append({"dataset": third, "what": cells[0], "error": "longer than 40 s"})
    found = {
        (each["dataset"], each["what"]): each
        for each in record.extrapolated(known, [first, second, third])
    }
    assert [found[first, cell] for cell in cells] == known[: len(cells)]
    for cell in cells:
        assert found[third, cell]["extrapolated"] is True
        assert found[third, cell]["cold"] == pytest.approx(row(third, cell)["cold"], rel=0.01)
    assert found[third, cells[0]]["error"] == "longer than 40 s"
    assert len(found) == 3 * len(cells)  # nothing is known of other attacks


def test_the_recorded_file_has_every_case_and_says_what_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And the simulation reads it."""
    rows = record.read(simulate.FILE)
    names = {(row["dataset"], row["what"]) for row in rows}
    assert names == {
        (name, what) for name in record.sizes() for what in (record.TRAINING, *record.cells())
    }
    measured = [row for row in rows if "extrapolated" not in row]
    assert {row["dataset"] for row in measured} >= {"synthetic-cora"}
    options = argparse.Namespace(durations=simulate.FILE, workers=[64], repeats=[3])
    simulated = list(simulate.rows(options))
    assert len(simulated) == 4 * len(simulate.RUNS)
    assert "efficiency" in simulate.table(simulated)
    assert capsys.readouterr().out == ""


def test_a_recording_is_resumed(tmp_path: Path) -> None:
    """Rows that were measured, or given up, are not measured again."""
    path = tmp_path / "rows.jsonl"
    first, second, *rest = record.cells()
    lines: list[Row] = [
        {"dataset": "synthetic-cora", "what": record.TRAINING, "cold": 1.0},
        {"dataset": "synthetic-cora", "what": first, "cold": 1.0, "warm": 0.1},
        {"dataset": "synthetic-cora", "what": second, "cold": 1.0, "extrapolated": True},
        {"dataset": "synthetic-cora", "what": rest[0], "error": "longer than 40 s"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert record.missing("synthetic-cora", record.read(path)) == [second, *rest[1:]]
