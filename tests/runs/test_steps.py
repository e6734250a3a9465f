"""Tasks in a worker."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from grb_check import datasets
from grb_check.cases.case import Case
from grb_check.errors import DataError, ModelError, UsageError
from grb_check.files.versions import versions
from grb_check.runs import process, steps
from grb_check.runs.process import run_task
from grb_check.runs.tasks import ModelOnDataset, Step, Task
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.settings import Execution, RunSettings

CASE = Case("synthetic-cora", "easy", "injection", "rnd")
SPEC = ModelSpec(label="gcn", target="grb_check.models:gcn")


def task(step: Step = steps.check, **settings: Any) -> Task:
    """A task that no process has seen."""
    return Task(
        step=step,
        settings=RunSettings(device="cpu", **settings),
        on=ModelOnDataset(SPEC, datasets.find("synthetic-cora")),
        cases=(CASE,),
        seed=0,
        repeats=1,
    )


def test_a_task_finds_its_dataset_again_in_another_process() -> None:
    """Formats are objects of a process, and folders differ between machines."""
    sent = pickle.loads(pickle.dumps(task()))
    assert sent == task()
    assert sent.on.source.format is task().on.source.format


def test_files_that_changed_since_the_run_began_are_refused() -> None:
    """By name, before anything is measured."""
    digests = {"grb_check.models:gcn": "ab12", "no_such_module:build": "cd34"}
    with pytest.raises(UsageError, match=r"files of grb_check.models:gcn, no_such_module:build "):
        run_task(task(execution=Execution(digests=digests)))
    with pytest.raises(UsageError) as raised:  # of an executor's worker
        run_task(task(execution=Execution(digests=digests, versions=versions())))
    for name in digests:
        assert f"files of {name} differ" in str(raised.value)


def test_workers_with_other_versions_are_refused() -> None:
    """With both sides; the same versions are not."""
    assert run_task(task(_nothing, execution=Execution(versions=versions()))).values == {}
    other = {**versions(), "torch": "1.0", "a-library": "2.0"}
    with pytest.raises(UsageError) as raised:
        run_task(task(_nothing, execution=Execution(versions=other)))
    text = str(raised.value)
    assert f"torch is {versions()['torch']} there and 1.0 here" in text
    assert "a-library is missing there and 2.0 here" in text
    assert "numpy" not in text


def test_a_worker_with_other_data_is_refused() -> None:
    """A machine may have another file of the same name."""
    fingerprint = run_task(task()).values[CASE].fingerprint
    for step in (steps.measure, steps.references):
        given = replace(task(step), cases=())
        assert run_task(replace(given, fingerprint=fingerprint)).values == {}
        with pytest.raises(DataError, match=r"dataset synthetic-cora: .* has other data"):
            run_task(replace(given, fingerprint="ab12"))


def _nothing(process: process.Process, _: Task) -> Any:
    yield from ()


def _one_case_fails(process: process.Process, _: Task) -> Any:
    yield CASE, ModelError("its own fault")


def _no_memory(process: process.Process, _: Task) -> Any:
    error = RuntimeError("the training failed")
    error.__cause__ = MemoryError("of 8 GB")
    yield CASE, error


def _strange(process: process.Process, _: Task) -> Any:
    class Strange(Exception):
        """Cannot be pickled."""

    yield CASE, Strange("of a user")


def test_errors_cross_processes() -> None:
    """That of a case with its case; a lack of memory is the task's, to be run again alone."""
    error = run_task(task(_one_case_fails)).values[CASE]
    assert isinstance(error, ModelError)
    strange = run_task(task(_strange)).values[CASE]
    assert "of a user" in str(pickle.loads(pickle.dumps(strange)))
    with pytest.raises(MemoryError, match="the training failed"):
        run_task(task(_no_memory))
