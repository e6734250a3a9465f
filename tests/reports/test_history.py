"""The history of runs: what a line holds, and how a file of lines is read."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from outcome_factory import outcome
from record_factory import HOSTILE, entry, measured, record, rich, view

from grb_check.cases.case import Case
from grb_check.errors import UsageError
from grb_check.files.commit import Commit
from grb_check.reports.history import PastRun, encode, read, run_of

NOON = datetime(2026, 5, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
COMMIT = Commit("ab" * 20, dirty=True)


def run(fields: dict[str, Any] | None = None, when: datetime = NOON) -> PastRun:
    return run_of(view(fields or rich()), COMMIT, when)


def line(**changes: Any) -> str:
    """A line; `changes` replace its fields, whatever the digest says."""
    return json.dumps(json.loads(encode(run(), "0.1.0")) | changes)


def test_a_line_says_what_was_tested_and_where() -> None:
    """The date is UTC."""
    made = run()
    assert (made.commit, made.dirty, made.date) == ("ab" * 20, True, "2026-05-01T12:00:00Z")
    assert made.environment["torch"] == "2.13.0"
    assert [each.label for each in made.models] == ["gcn"]
    assert (made.suite, made.repeats, made.passed) == ("smoke", 3, False)


def test_each_case_has_its_figures_and_its_verdict() -> None:
    """Those of the reports; a case that never came back has a status alone."""
    cases = {each.id: each for each in run().cases}
    assert len(cases) == 15
    failed = cases["synthetic-cora/easy/injection/fgsm"]
    assert (failed.model, failed.status, failed.limit) == ("gcn", "fail", 0.3)
    assert (failed.clean, failed.test) == (pytest.approx(0.8), "")
    assert failed.drop == pytest.approx(0.42, abs=0.01)
    assert failed.interval is not None
    assert failed.interval[0] < failed.drop < failed.interval[1]
    lost = next(each for each in cases.values() if each.status == "missing")
    assert (lost.clean, lost.drop, lost.interval, lost.limit) == (None, None, None, None)


def test_ids_are_the_same_in_runs_of_one_model_and_of_several() -> None:
    """So that a second model does not begin all series anew."""
    alone = Case("cora", "easy", "injection", "rnd")
    beside = Case("cora", "easy", "injection", "rnd", "gcn")
    other = Case("cora", "easy", "injection", "rnd", "gat")
    one = run(record([entry(alone, measured(alone, 0.1))]))
    two = run(record([entry(each, measured(each, 0.1, each.model)) for each in (beside, other)]))
    assert {(each.model, each.id) for each in one.cases} == {("gcn", "cora/easy/injection/rnd")}
    assert {(each.model, each.id) for each in two.cases} == {
        ("gcn", "cora/easy/injection/rnd"),
        ("gat", "cora/easy/injection/rnd"),
    }


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """In the order of dates, as after a merge of two branches; blank lines are skipped."""
    runs = [run(when=NOON + timedelta(days=day)) for day in (3, 1, 2)]
    path = tmp_path / "h.jsonl"
    path.write_text("\n\n".join(encode(each, "0.1.0") for each in runs) + "\n")
    found = read(path)
    assert list(found.runs) == [runs[1], runs[2], runs[0]]
    assert found.notes == []


def test_a_line_that_is_cut_short_is_skipped_with_a_note(tmp_path: Path) -> None:
    """So are the marks of a merge."""
    path = tmp_path / "h.jsonl"
    path.write_text(f"{line()[:500]}\n{line()}\n<<<<<<< main\n")
    found = read(path)
    assert len(found.runs) == 1
    assert [each.partition(" of ")[0] for each in found.notes] == ["line 1", "line 3"]
    assert "cut short: skipped" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (line(passed=True), "does not match its digest"),
        (line(repeats=0), "line 1 of history"),
        (line(kind="baseline"), "kind 'baseline'"),
        ('{"a": 1}', "is not a run of a history"),
        ("[1]", "is not a run of a history"),
        ("", "has no run"),
        ("<<<<<<<", "has no run"),
    ],
)
def test_other_lines_are_refused_with_their_number(tmp_path: Path, text: str, words: str) -> None:
    """And what to give instead."""
    path = tmp_path / "h.jsonl"
    path.write_text(f"{text}\n")
    with pytest.raises(UsageError) as caught:
        read(path)
    assert words in str(caught.value)
    assert "give a file that --grb-history" in str(caught.value)


def test_lines_of_another_format_are_skipped_with_a_note(tmp_path: Path) -> None:
    """A history outlives a change of the format."""
    path = tmp_path / "h.jsonl"
    path.write_text(f"{line(format=2)}\n{line()}\n")
    found = read(path)
    assert len(found.runs) == 1
    (note,) = found.notes
    assert note.startswith("line 1 of ")
    assert note.endswith(
        "has format 2, of another release of grb_check; this one reads format 1: skipped"
    )
    path.write_text(f"{line(format=2)}\n")
    with pytest.raises(UsageError, match="has no run"):
        read(path)


def test_a_date_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """Though it has the form of one."""
    path = tmp_path / "h.jsonl"
    changed = run().__class__(**{**_fields(run()), "date": "2026-02-30T12:00:00Z"})
    path.write_text(encode(changed, "0.1.0"))
    with pytest.raises(UsageError, match="impossible date '2026-02-30T12:00:00Z'"):
        read(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """With what to give."""
    with pytest.raises(UsageError, match=r"No such file.*give a file that --grb-history"):
        read(tmp_path / "none.jsonl")


def test_texts_are_read_without_control_characters(tmp_path: Path) -> None:
    """A model's label may be anything."""
    case = Case("cora", "easy", "injection", "rnd")
    fields = record([entry(case, outcome([(0.8, 0.7)], [(0.8, 0.6)], case, HOSTILE))])
    path = tmp_path / "h.jsonl"
    path.write_text(encode(run(fields), "0.1.0"), encoding="utf-8")
    (found,) = read(path).runs
    assert "\x1b" not in found.cases[0].model + found.models[0].label


def _fields(made: PastRun) -> dict[str, Any]:
    return {name: getattr(made, name) for name in made.__struct_fields__}
