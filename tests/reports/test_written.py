"""The reports that are files: what is written, and the summary of GitHub Actions."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from record_factory import record, rich, view

from grb_check.reports.written import ReportWarning, write_run


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a step under GitHub Actions, with what another tool wrote."""
    path = tmp_path / "summary.md"
    path.write_text("# Of another tool\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def test_each_report_is_written_to_its_path(tmp_path: Path) -> None:
    """All are made from one record, and no other file is written."""
    paths = {name: tmp_path / name for name in ("json", "junit", "html", "markdown")}
    write_run(paths, view(rich()))
    assert json.loads(paths["json"].read_text())["grb_check"] == "0.1.0"
    starts = {"junit": "<?xml", "html": "<!doctype html>", "markdown": "<!-- grb_check "}
    for name, start in starts.items():
        assert paths[name].read_text(encoding="utf-8").startswith(start)
    assert len(list(tmp_path.iterdir())) == 4


def test_the_summary_is_appended_under_github_actions(summary: Path) -> None:
    """Below the text of other tools."""
    write_run({}, view(rich()))
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("# Of another tool\n\n<!-- grb_check ")
    assert "\n## ❌ Graph robustness: 4 of 16 cases" in text


def test_elsewhere_and_without_cases_there_is_no_summary(
    summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tool may set one of the variables; a run of other tests has no summary."""
    write_run({}, view(record([])))
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    write_run({}, view(rich()))
    assert summary.read_text() == "# Of another tool\n"


def test_a_summary_that_cannot_be_written_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, summary: Path
) -> None:
    """No run fails for it, even if warnings are errors."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary.md"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        write_run({}, view(rich()))
    assert [each.category for each in caught] == [ReportWarning]
    assert "No such file" in str(caught[0].message)
