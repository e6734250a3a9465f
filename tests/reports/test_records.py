"""Run records in files: read back, and refused in words where they are something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from record_factory import rich

from grb_check.errors import UsageError
from grb_check.reports.digest import digest
from grb_check.reports.html.page import page_text
from grb_check.reports.markdown import markdown_text
from grb_check.reports.records import check, lost_rows, read, rows_of

NEW = ("baseline", "shard", "planned", "curves", "lowest", "delta")


def test_a_record_is_read_back(tmp_path: Path) -> None:
    """What was written is what is read, case by case."""
    made = rich()
    path = tmp_path / "run.json"
    path.write_text(json.dumps(made))
    found = read(path)
    assert found == json.loads(json.dumps(made))
    assert [row.case.id for row in rows_of(found)] == [each["id"] for each in made["cases"]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"\xff\xfe\x00", "is no text"),
        (b'{"format": 1, "cases": [', "is no JSON, or cut short"),
        (b"[" * 100_000, "is no JSON, or cut short"),
        (b"[1, 2]", "is no run record of grb_check"),
        (b'{"created": 1, "tests": []}', "is no run record of grb_check"),
        (b'{"format": 99, "cases": [], "grb_check": "7.0"}', "made by grb_check 7.0"),
        (b'{"format": 1, "cases": []}', "has format 1, this version reads 2: make it anew"),
        (b'{"format": 2, "cases": {}}', "is damaged"),
    ],
)
def test_another_file_is_refused_in_words(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    """The message names the file, what is wrong, and what to give."""
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=words) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("key", ["id", "node_id", "outcome", "result"])
def test_a_case_that_lacks_something_is_damage(key: str) -> None:
    """No report of half of a case."""
    made = rich()
    at = next(at for at, each in enumerate(made["cases"]) if each["outcome"] is None)
    del made["cases"][at][key]
    with pytest.raises(UsageError, match="damaged"):
        check(made, "it")


def test_a_case_of_an_unknown_difficulty_is_damage() -> None:
    """Reports could not put it in order."""
    made = rich()
    made["cases"][0]["outcome"]["case"]["difficulty"] = "impossible"
    with pytest.raises(UsageError, match="damaged"):
        check(made, "it")


def test_a_record_of_an_earlier_version_makes_all_reports() -> None:
    """One without the keys and verdicts that came later."""
    made: dict[str, Any] = {key: each for key, each in rich().items() if key not in NEW}
    for each in made["cases"]:
        del each["evidence"]
        for key in ("method", "interval", "borderline", "comparison"):
            (each["verdict"] or {}).pop(key, None)
        for key in ("attack", "threat"):
            (each["outcome"] or {}).pop(key, None)
    found = digest(check(made, "it"))
    assert "All cases" in page_text([found])
    assert "What broke" in markdown_text([found])


def test_lost_cases_are_known_by_their_ids() -> None:
    """Those of the built-in suite; a user's test has no case in its id."""
    found = lost_rows(rich())
    assert [row.case.id for row in found] == ["synthetic-cora/medium/injection/rnd"]


def test_a_case_without_figures_keeps_model_and_dataset() -> None:
    """Its id says both, with slashes in the dataset."""
    made = rich()
    case = next(each for each in made["cases"] if each["outcome"] is None)
    made["cases"] = [{**case, "id": "gat@data/mine/easy/injection/pgd+budget=0.05"}]
    (row,) = rows_of(made)
    assert (row.case.model, row.case.dataset) == ("gat", "data/mine")
    assert row.case.cell == "easy/injection/pgd+budget=0.05"
