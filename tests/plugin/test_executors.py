"""Runs that are measured in the workers of an executor that the user names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import distributed  # noqa: F401 - runs in this process forget what they import
import psutil
import pytest
from differences import differences, timeless
from worker_functions import runs

WAIT = 600  # seconds, until which a test fails instead of waiting for ever

MODELS = """
import os
import signal
import time
from pathlib import Path
from pathlib import Path

from grb_check import SelfTrained
from grb_check.training.nodes import TrainingSettings, fit_with
from models import Net

HERE = Path(__file__).parent


def _model(num_features, num_classes, begin):
    net = Net(num_features, num_classes)
    inner = fit_with(net, TrainingSettings(max_epochs=5))

    def fit(data, validation=None):
        begin()
        inner(data, validation)

    return SelfTrained(net, fit)


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def build(num_features, num_classes):
    return _model(num_features, num_classes, lambda: None)


def once(num_features, num_classes, seed):
    def begin():
        if seed == 1 and not (HERE / "died").exists():
            (HERE / "died").touch()
            _die()

    return _model(num_features, num_classes, begin)


def always(num_features, num_classes, seed):
    return _model(num_features, num_classes, _die if seed == 1 else lambda: None)


def hangs(num_features, num_classes, seed):
    def begin():
        if seed == 1:
            (HERE / f"hangs-{os.getpid()}").touch()
            time.sleep(3600)

    return _model(num_features, num_classes, begin)
"""

EXECUTORS = """
import multiprocessing
import sys
import threading
import time
from pathlib import Path
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import worker_functions

HERE = Path(__file__).parent


def _first(folder):
    sys.path.insert(0, folder)


def _elsewhere(folder):
    from grb_check.runs import process

    original = process.open_store
    place = process.open_store.__globals__["StorePlace"](folder)
    process.open_store = lambda _, made=None: original(place, made)


def _pool(begin, folder):
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=begin, initargs=(str(HERE / folder),))


spawned = worker_functions.spawned
cluster = worker_functions.cluster
other_files = partial(_pool, _first, "other")
another_disk = partial(_pool, _elsewhere, "disk")


@contextmanager
def shrinking():
    with worker_functions.cluster() as executor:
        inner = executor.submit

        def submit(*args, **kwargs):  # with the third task one of the workers goes
            submit.calls += 1
            if submit.calls == 3:
                executor._client.cluster.scale(1)
            return inner(*args, **kwargs)

        submit.calls = 0
        executor.submit = submit
        yield executor
"""

GATE = ("--grb-dataset=./tiny", "--grb-max-drop=1", "--grb-min-clean=0", "--grb-only")
CASES = (*GATE, "--grb-difficulty=easy", "--grb-attack=injection/rnd,attacks:Stored")


@pytest.fixture
def folder(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with models and executors, which workers can import."""
    project.makepyfile(counted=MODELS, executors=EXECUTORS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project.path), *sys.path]))
    return project


def run(folder: pytest.Pytester, model: str, executor: str, *more: str) -> pytest.RunResult:
    given = (f"--grb-model=counted:{model}", "--grb-json=run.json", "--grb-repeats=2")
    where = (f"--grb-executor=executors:{executor}",) if executor else ()
    return folder.runpytest(*CASES, *given, *where, *more)


def record(folder: pytest.Pytester) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder.path / "run.json").read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["spawned", "shrinking"])
def test_every_executor_finds_what_one_process_finds(
    folder: pytest.Pytester, executor: str
) -> None:
    """The same record, and the header says where it was measured."""
    run(folder, "build", "", "--grb-store=off").assert_outcomes(passed=2)
    here = record(folder)
    result = run(folder, "build", executor, "--grb-store=off")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"grb measures in: executors:{executor} (*Executor)"])
    assert differences(timeless(here), timeless(record(folder))) == []


@pytest.mark.slow
def test_a_worker_that_dies_once_loses_nothing(folder: pytest.Pytester) -> None:
    """Its task is run once more."""
    run(folder, "once", "cluster").assert_outcomes(passed=2)
    assert (folder.path / "died").exists()
    assert record(folder)["missing"] == []


@pytest.mark.slow
def test_what_is_lost_twice_is_named(folder: pytest.Pytester) -> None:
    """The run is not green."""
    result = run(folder, "always", "spawned", "--grb-case=*/easy/*/rnd")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(["*lost twice: *", "*grb cases without a verdict*"])
    assert record(folder)["missing"] == ["grb::tiny::test_attack[easy/injection/rnd]"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent SIGINT there")
def test_an_interrupt_ends_the_workers(folder: pytest.Pytester) -> None:
    """As in a terminal, where all of its processes get it."""
    given = ("--grb-model=counted:hangs", "--grb-repeats=2", "--grb-executor=executors:cluster")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *CASES, *given],
        cwd=folder.path,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    until(lambda: bool(list(folder.path.glob("hangs-*"))))
    started = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    written, _ = process.communicate(timeout=WAIT)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, written
    assert started
    until(lambda: not any(runs(each) for each in started))


@pytest.mark.slow
def test_workers_with_other_files_are_refused(folder: pytest.Pytester) -> None:
    """Before any work, with both sides named."""
    other = folder.mkdir("other")
    (other / "counted.py").write_text(f"{MODELS}\nOTHER = True\n")
    result = run(folder, "build", "other_files", "--grb-store=off")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*would not measure what the run began with: files of counted:*"])


@pytest.mark.slow
def test_workers_without_our_disk_send_what_they_store(folder: pytest.Pytester) -> None:
    """Perturbations, so that the next run finds them here."""
    run(folder, "build", "another_disk", "--grb-store=here").assert_outcomes(passed=2)
    assert perturbations_in(folder.path / "here") == perturbations_in(folder.path / "disk") != {}


def test_an_executor_and_xdist_exclude_each_other(folder: pytest.Pytester) -> None:
    """And a module that is not there ends the run."""
    for more, said in (("-n1", "*--grb-executor measures in *"), ("", "*'executors:nothing'*")):
        result = run(folder, "build", "nothing", *filter(None, [more]))
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([said])


def perturbations_in(folder: Path) -> dict[str, bytes]:
    """The files of a store that hold perturbations, by their names."""
    header = b'"kind": "perturbation"'
    files = {path.name: path.read_bytes() for path in folder.rglob("*.npz")}
    return {name: content for name, content in files.items() if header in content}


def until(condition: object) -> None:
    """Wait for a condition."""
    assert callable(condition)
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
