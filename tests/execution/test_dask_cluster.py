"""Dask: clusters of this machine, and schedulers and workers that others started."""

from __future__ import annotations

import os
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


def test_a_task_that_kills_its_worker_is_lost_at_once(local: Workers) -> None:
    """Dask alone would kill four workers with it; the next one finds another worker."""
    error = local.submit(calls.die).exception(SECONDS)
    assert error is not None
    assert worker_lost(error)
    assert not breaks_all(error)
    assert "on 1 different workers" in str(error)
    assert local.submit(calls.double, 1).result(SECONDS) == 2


def test_dask_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a run that names it needs it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    for text in ("dask", "dask:tcp://127.0.0.1:8786"):
        with pytest.raises(UsageError, match=r"pip install 'grb-check\[dask\]'"):
            open_workers(text)


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
