"""Dask: clusters of this machine, and schedulers and workers that others started."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import worker_functions as calls
from dask_processes import Cluster, cluster

from grb_check.errors import UsageError
from grb_check.execution import dask_cluster
from grb_check.execution.calls import Workers, breaks_all, worker_lost
from grb_check.execution.start import starter

SECONDS = 600  # until which a test fails instead of waiting for ever


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("working-directory"))
    workers = starter("dask", jobs=2)()
    yield workers
    workers.close()
    os.chdir(before)


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as made:
        yield made


def test_a_task_that_kills_its_worker_is_lost_at_once(local: Workers) -> None:
    """Dask alone would kill four workers with it; the next one finds another worker."""
    error = local.executor.submit(calls.die).exception(SECONDS)
    assert error is not None
    assert worker_lost(error)
    assert not breaks_all(error)
    assert "on 1 different workers" in str(error)
    assert local.executor.submit(calls.double, 1).result(SECONDS) == 2


def test_dask_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a run that names it needs it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    for text in ("dask", "dask:tcp://127.0.0.1:8786"):
        with pytest.raises(UsageError, match=r"pip install 'grb-check\[dask\]'"):
            starter(text)()


def test_a_scheduler_without_workers_is_an_error(
    remote: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time in which the first may join."""
    monkeypatch.setattr(dask_cluster, "WORKER_SECONDS", 0.5)
    with pytest.raises(UsageError, match=f"dask worker {remote.address} --nthreads=1"):
        starter(f"dask:{remote.address}")()


@pytest.mark.slow
def test_a_scheduler_that_is_lost_takes_all_tasks_with_it(
    remote: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none answers afterwards."""
    remote.add_worker()
    workers = starter(f"dask:{remote.address}")()
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 1)
    futures = [workers.executor.submit(calls.sleep, 3600) for _ in range(3)]
    remote.scheduler.kill()
    errors = []
    for future in futures:
        with pytest.raises(BaseException) as raised:
            future.result(SECONDS)
        errors.append(raised.value)
    assert all(worker_lost(each) and breaks_all(each) for each in errors)
    workers.close()
    with pytest.raises(UsageError, match="no Dask scheduler"):
        starter(f"dask:{remote.address}")()
