"""The reports that are files: what is written, and the summary of GitHub Actions."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from record_factory import rich, view

from grb_check.reports.written import ReportWarning, write_run


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a step under GitHub Actions, with what another tool wrote."""
    path = tmp_path / "summary.md"
    path.write_text("# Of another tool\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


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
