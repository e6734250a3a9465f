"""Dask: clusters of this machine, and schedulers and workers that others started."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import worker_functions as calls
from dask_processes import Cluster, cluster

from grb_check.errors import LostError, UsageError
from grb_check.execution import dask_cluster
from grb_check.execution.executors import Workers, breaks_all, open_workers, worker_lost

SECONDS = 600  # until which a test fails instead of waiting for ever


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("working-directory"))
    workers = open_workers("dask", jobs=2)
    yield workers
    workers.close()
    os.chdir(before)


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        yield made


def test_a_local_cluster_runs_calls_in_processes_of_its_own(local: Workers) -> None:
    """And says how many there are."""
    assert local.submit(calls.double, 21).result(SECONDS) == 42
    assert local.submit(calls.own_process).result(SECONDS) != os.getpid()
    assert isinstance(local.submit(calls.refuse, "as a task may").exception(SECONDS), ValueError)
    assert local.name.startswith("dask at tcp://127.0.0.1:")
    assert local.name.endswith(", 2 workers")
    assert local.width == 3


def test_a_worker_has_the_threads_of_this_process(
    local: Workers,
) -> None:
    """Dask would set one, and figures would differ by rounding."""
    assert local.submit(calls.variable, "OMP_NUM_THREADS").result(SECONDS) == os.environ.get(
        "OMP_NUM_THREADS"
    )


def test_a_task_that_kills_its_worker_is_lost_at_once(local: Workers) -> None:
    """Dask alone would kill four workers with it; the next one finds another worker."""
    error = local.submit(calls.die).exception(SECONDS)
    assert error is not None
    assert worker_lost(error)
    assert not breaks_all(error)
    assert "on 1 different workers" in str(error)
    assert local.submit(calls.double, 1).result(SECONDS) == 2


def test_a_local_cluster_writes_nothing_into_the_working_directory(local: Workers) -> None:
    """Its files are in a temporary directory."""
    assert local.submit(calls.double, 1).result(SECONDS) == 2
    assert os.listdir() == []


@pytest.mark.slow
def test_nothing_is_logged_and_no_process_stays(
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closed while a task runs and others wait, after a worker was lost."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    level = logging.getLogger("distributed").level
    others = calls.processes_below(os.getpid())
    workers = open_workers("dask", jobs=2)
    started = calls.processes_below(os.getpid()) - others
    assert len(started) >= 2
    assert workers.submit(calls.die).exception(SECONDS) is not None
    for _ in range(4):
        workers.submit(calls.sleep, 3600)
    started |= calls.processes_below(os.getpid()) - others
    workers.close()
    assert calls.ended(started, SECONDS)
    assert capfd.readouterr() == ("", "")
    assert os.listdir(tmp_path) == []
    assert caplog.records == []
    assert logging.getLogger("distributed").level == level


# What a shell starts in the background ignores SIGINT, and so do its children.
INTERRUPTED = """
import signal
import time
import worker_functions as calls
from grb_check.execution.executors import open_workers
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    workers = open_workers("dask", jobs=2)
    try:
        for _ in range(4):
            workers.submit(calls.sleep, 3600)
        print("begun", flush=True)
        while True:  # a signal just before a call of sleep does not wake it
            time.sleep(0.1)
    except KeyboardInterrupt:
        pass
    finally:
        workers.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal to a group of processes")
def test_ctrl_c_ends_a_local_cluster_without_a_word(tmp_path: Path) -> None:
    """A terminal sends it to the workers, too."""
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    started = calls.processes_below(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=SECONDS) == ("", "")
    assert process.returncode == 0
    assert calls.ended(started, SECONDS)


def test_dask_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a run that names it needs it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    for text in ("dask", "dask:tcp://127.0.0.1:8786"):
        with pytest.raises(UsageError, match=r"pip install 'grb-check\[dask\]'"):
            open_workers(text)


def test_an_address_where_nothing_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do."""
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 0.5)
    with pytest.raises(UsageError, match=r"tcp://127\.0\.0\.1:9.*start one with `dask scheduler`"):
        open_workers("dask:tcp://127.0.0.1:9")


def test_a_scheduler_without_workers_is_an_error(
    remote: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time in which the first may join."""
    monkeypatch.setattr(dask_cluster, "WORKER_SECONDS", 0.5)
    with pytest.raises(UsageError, match=f"no worker.*dask worker {remote.address} --nthreads=1"):
        open_workers(f"dask:{remote.address}")


@pytest.mark.slow
def test_workers_that_differ_are_named_with_both_versions(remote: Cluster, tmp_path: Path) -> None:
    """A package, the source of a model, and a model that is missing there."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, text in ((here, "def build(): return 1\n"), (there, "def build(): return 2\n")):
        folder.mkdir()
        (folder / "model_on_both.py").write_text(text)
    (here / "model_of_one.py").write_text("def build(): ...\n")
    metadata = there / "scipy-0.9.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: scipy\nVersion: 0.9\n")
    remote.add_worker(path=[there])
    sys.path.insert(0, str(here))
    try:
        with pytest.raises(UsageError) as raised:
            open_workers(
                f"dask:{remote.address}", models=["model_on_both:build", "model_of_one:build"]
            )
    finally:
        sys.path.remove(str(here))
    text = str(raised.value)
    assert "scipy is 0.9 at 1 worker (tcp://127.0.0.1:" in text
    assert "source of model_on_both:build is " in text
    assert "source of model_of_one:build is not to be imported" in text
    assert "there is no module model_of_one" in text


@pytest.mark.slow
def test_workers_without_grb_check_are_an_error(remote: Cluster, tmp_path: Path) -> None:
    """A package of that name without our modules stands for none."""
    (tmp_path / "grb_check").mkdir()
    (tmp_path / "grb_check" / "__init__.py").write_text("")
    remote.add_worker(path=[tmp_path])
    with pytest.raises(UsageError, match=r"cannot run grb_check \(.*No module named.*\); install"):
        open_workers(f"dask:{remote.address}")


@pytest.mark.slow
def test_tasks_ask_for_a_gpu_where_workers_offer_one(remote: Cluster) -> None:
    """The worker without one has nothing to do."""
    remote.add_worker("--resources=GPU=1", variables={"WHO": "with"})
    remote.add_worker(variables={"WHO": "without"})
    remote.wait_for_workers(2)
    workers = open_workers(f"dask:{remote.address}")
    try:
        who = [workers.submit(calls.variable, "WHO") for _ in range(6)]
        assert {each.result(SECONDS) for each in who} == {"with"}
        assert workers.name.endswith(", 2 workers, 1 GPU")
        assert workers.width == 2
    finally:
        workers.close()


@pytest.mark.slow
def test_a_scheduler_that_is_lost_takes_all_tasks_with_it(
    remote: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is submitted later is lost at once."""
    remote.add_worker()
    workers = open_workers(f"dask:{remote.address}")
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 1)
    futures = [workers.submit(calls.sleep, 3600) for _ in range(3)]
    remote.scheduler.kill()
    errors = []
    for future in futures:
        with pytest.raises(BaseException) as raised:
            future.result(SECONDS)
        errors.append(raised.value)
    assert all(worker_lost(each) and breaks_all(each) for each in errors)
    with pytest.raises(UsageError):
        workers.restart()
    with pytest.raises(LostError, match="no Dask scheduler answered"):
        workers.submit(calls.double, 1)
    workers.close()


@pytest.mark.slow
def test_a_factory_may_return_a_client_of_dask() -> None:
    """As one of a cluster of SLURM; it is closed with its cluster."""
    others = calls.processes_below(os.getpid())
    workers = open_workers("worker_functions:dask_client")
    started = calls.processes_below(os.getpid()) - others
    try:
        assert workers.submit(calls.double, 21).result(SECONDS) == 42
        assert workers.name.startswith("dask at tcp://")
    finally:
        workers.close()
    assert started
    assert calls.ended(started, SECONDS)
