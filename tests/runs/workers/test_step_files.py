"""Steps of other processes."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from grb_check.runs.workers import step_files
from grb_check.runs.workers.step_files import StepFiles


def test_the_steps_of_all_processes_are_read(tmp_path: Path) -> None:
    """Until they end."""
    steps = StepFiles(str(tmp_path))
    assert steps.read() == ""
    with steps("searching here") as tell:
        assert steps.read() == ""  # it has told nothing
        tell(0.25)
        assert pickle.loads(pickle.dumps(steps)) == steps  # as it is sent to a process
        (tmp_path / "1.step").write_text("searching there (3 s)", "utf-8")
        first, second = steps.read().split("; ")
        assert first == "searching there (3 s)"
        assert re.fullmatch(r"searching here \(\d+ s, 25 % tried, about .* left\)", second)
    assert steps.read() == "searching there (3 s)"


def test_a_step_that_tells_often_writes_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first share at once."""
    monkeypatch.setattr(step_files, "_EVERY", 1e9)
    steps = StepFiles(str(tmp_path))
    with steps("searching") as tell:
        tell(0.25)
        tell(0.5)
        assert "25 % tried" in steps.read()


def test_a_folder_that_is_gone_ends_no_step(tmp_path: Path) -> None:
    """As where the run was stopped before its workers."""
    with StepFiles(str(tmp_path / "gone"))("searching") as tell:
        tell(0.5)
