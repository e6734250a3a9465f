"""Workers that differ from the process that submits to them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import worker_functions as calls

from grb_check.errors import UsageError
from grb_check.execution.worker_environment import (
    PROCESS,
    Needs,
    compare,
    environment,
    environment_of_worker,
    run_checked,
)

HERE = {PROCESS: "laptop 1", "torch": "2.9.0", "source of my:gcn": "ab12"}


def test_both_sides_name_the_same_things() -> None:
    """A worker that is this process has no differences."""
    needs = Needs(models=("tiny:linear",), packages=("distributed",))
    keys = [PROCESS, "grb_check", "python", "torch", "torch-geometric", "numpy", "scipy"]
    assert list(environment(needs)) == [*keys, "distributed", "source of tiny:linear"]
    assert list(environment_of_worker(needs)) == list(environment(needs))


def test_a_difference_names_both_sides_and_what_to_do() -> None:
    """Workers with the same difference are one entry, and four of them are not all named."""
    others = {f"tcp://10.0.0.{each}:1": {**HERE, PROCESS: f"node {each}"} for each in range(6)}
    for name in list(others)[:4]:
        others[name]["torch"] = "2.4.0"
    others["tcp://10.0.0.5:1"]["source of my:gcn"] = "not to be imported (no module my)"
    with pytest.raises(UsageError) as raised:
        compare("--grb-executor=dask:x", HERE, others)
    text = str(raised.value)
    assert text.startswith("--grb-executor=dask:x: workers differ")
    assert (
        "source of my:gcn is not to be imported (no module my) at 1 worker (tcp://10.0.0.5:1) and "
        "ab12 here; torch is 2.4.0 at 4 workers (tcp://10.0.0.0:1, tcp://10.0.0.1:1, "
        "tcp://10.0.0.2:1 and 1 more) and 2.9.0 here; install the same versions"
    ) in text


def test_what_a_worker_lacks_is_a_difference() -> None:
    """One of another release may not know a name."""
    with pytest.raises(UsageError, match="torch is missing at 1 worker"):
        compare("x", HERE, {"w": {PROCESS: "node", "source of my:gcn": "ab12"}})


def test_this_process_does_not_differ_from_itself() -> None:
    """As a worker of a pool of threads: whatever it has imported is what it runs."""
    compare("x", HERE, {"w": {PROCESS: HERE[PROCESS], "torch": "another"}})


def test_a_worker_of_several_runs_has_the_source_that_it_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its modules are those of the first run, although the file has changed since."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "edited_model.py"
    file.write_text("def build(): ...\n")
    needs = Needs(models=("edited_model:build",), folders=(str(tmp_path),))
    try:
        first = environment_of_worker(needs)
        file.write_text("def build(): return 1\n")
        again, here = environment_of_worker(needs), environment(needs)
    finally:
        sys.modules.pop("edited_model", None)
    assert first == again
    assert again["source of edited_model:build"] != here["source of edited_model:build"]


def test_a_model_that_cannot_be_imported_is_named_with_its_error() -> None:
    """The worker goes on: this side says what differs."""
    found = environment_of_worker(Needs(models=("no_such_module:build",)))
    assert "there is no module no_such_module" in found["source of no_such_module:build"]


@pytest.mark.parametrize(("torch", "runs"), [(None, True), ("0.0.1", False)])
def test_a_late_worker_is_compared_before_its_first_task(torch: str | None, runs: bool) -> None:
    """It ends the task, and not the worker."""
    needs = Needs()
    here = {**environment(needs), PROCESS: "another process"}
    if torch is not None:
        here["torch"] = torch
    call: Callable[[], object] = lambda: run_checked(  # noqa: E731
        "x", tuple(here.items()), needs, calls.double, 2
    )
    if runs:
        assert call() == 4
    else:
        with pytest.raises(UsageError, match=r"and 0\.0\.1 here"):
            call()
