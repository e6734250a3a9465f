"""A run without pytest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tiny import write_dataset

import grb_check
from grb_check.errors import UsageError
from grb_check.reports.record import RunRecord

MODEL = """
import torch
from grb_check import Trained


class Linear(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.linear = torch.nn.Linear(features, classes)

    def forward(self, x, edge_index):
        mean = torch.zeros_like(x).index_add_(0, edge_index[1], x[edge_index[0]])
        return self.linear(x + mean)


def build(num_features, num_classes):
    return Trained(Linear(num_features, num_classes).eval())


def broken(num_features, num_classes, seed):
    if seed:
        raise RuntimeError("the user's own fault")
    return Linear(num_features, num_classes)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a module `run_models` and a dataset `tiny`."""
    write_dataset(tmp_path / "tiny")
    (tmp_path / "run_models.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "run_models", raising=False)
    return tmp_path


def run(model: str, **options: object) -> RunRecord:
    """The record of two cases."""
    return grb_check.run(
        f"run_models:{model}",
        dataset="./tiny",
        difficulty=["easy", "full"],
        attack="injection/rnd",
        repeats=2,
        store="off",
        max_drop=1,
        min_clean=0,
        **options,
    )


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_run_gives_the_record() -> None:
    """Judged by the gate; a case that raises has an error, and the others are there."""
    record = run("build")
    assert [case.result for case in record.cases] == ["pass", "pass"]
    assert record.environment["processor"]
    assert [len(case.outcome.repeats) for case in record.cases if case.outcome] == [2, 2]
    broken = run("broken", case="tiny/easy/*")
    assert [(case.result, case.outcome) for case in broken.cases] == [("error", None)]
    assert "the user's own fault" in broken.cases[0].message


@pytest.mark.slow
def test_nothing_is_kept_from_one_run_to_the_next(folder: Path) -> None:
    """A model whose file has changed is not measured as it was."""
    run("build")
    with (folder / "run_models.py").open("a") as file:
        file.write("\nCHANGED = True\n")
    with pytest.raises(UsageError, match="files of run_models:build have changed"):
        run("build")


@pytest.mark.usefixtures("folder")
def test_unknown_options_are_refused() -> None:
    """With the nearest name, before any work."""
    with pytest.raises(UsageError, match=r"'dificulty' \(did you mean 'difficulty'\?\)"):
        grb_check.run("run_models:build", dificulty="easy")
    with pytest.raises(UsageError, match="for all others use pytest"):
        grb_check.run("run_models:build", html="report.html")
