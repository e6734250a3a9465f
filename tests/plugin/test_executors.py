"""Runs that are measured in the workers of an executor that the user names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import sleep

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

        def submit(*args, **kwargs):  # after the check one of the workers goes
            submit.calls += 1
            if submit.calls == 2:
                executor._client.cluster.scale(1)
                while len(executor._client.scheduler_info()["workers"]) > 1:
                    sleep(0.05)
                (HERE / "shrunk").touch()
            return inner(*args, **kwargs)

        submit.calls = 0
        executor.submit = submit
        yield executor
"""

# A process that a shell has put into the background ignores interrupts, and so do its children.
IN_A_TERMINAL = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import pytest
sys.exit(pytest.main(sys.argv[1:]))
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


def record(folder: pytest.Pytester) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.path / "run.json").read_text())
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
    assert (folder.path / "shrunk").exists() == (executor == "shrinking")


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
        [sys.executable, "-c", IN_A_TERMINAL, *CASES, *given],
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
    """Perturbations, so that the next run finds them here; and results, to resume with."""
    run(folder, "build", "another_disk", "--grb-store=here").assert_outcomes(passed=2)
    here, there = folder.path / "here", folder.path / "disk"
    assert stored_in(here, "perturbation") == stored_in(there, "perturbation") != {}
    assert stored_in(here, "text") == stored_in(there, "text") != {}
    result = run(folder, "build", "", "--grb-store=here", "--grb-resume")
    result.assert_outcomes(passed=2)
    assert {
        repeat["measured_before"]
        for case in record(folder)["cases"]
        for repeat in case["outcome"]["repeats"]
    } == {True}


def test_what_an_executor_excludes_ends_the_run(folder: pytest.Pytester) -> None:
    """Workers of pytest-xdist, a base; and a function that is not there."""
    for executor, more, said in (
        ("nothing", "-n1", "*--grb-executor measures in *"),
        ("nothing", "", "*'executors:nothing'*"),
        ("spawned", "--grb-base=HEAD", "*--grb-base and --grb-executor: *--grb-baseline*"),
    ):
        if more.startswith("--grb-base"):
            repository(folder)
        result = run(folder, "build", executor, *filter(None, [more]))
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([said])


def repository(folder: pytest.Pytester) -> None:
    """Make the folder one with a revision."""
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=folder.path, check=True)


def stored_in(folder: Path, kind: str) -> dict[str, bytes]:
    """The files of a kind in a store, by their names."""
    header = f'"kind": "{kind}"'.encode()
    files = {path.name: path.read_bytes() for path in folder.rglob("*.npz")}
    return {name: content for name, content in files.items() if header in content}


def until(condition: object) -> None:
    """Wait for a condition."""
    assert callable(condition)
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
