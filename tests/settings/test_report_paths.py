"""Paths of reports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grb_check.errors import UsageError
from grb_check.settings.report_paths import check_all


def test_names_that_the_system_takes_for_the_same_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, where upper and lower case are the same; `normcase` knows."""
    paths = {"json": tmp_path / "Report", "html": tmp_path / "report"}
    check_all("--grb-", paths, None)
    monkeypatch.setattr(os.path, "normcase", str.lower)
    with pytest.raises(UsageError, match="--grb-json and --grb-html are the same file"):
        check_all("--grb-", paths, None)
