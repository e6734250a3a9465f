"""Executors that benchmarks name with `--grb-executor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager


@contextmanager
def dask_cluster() -> Iterator[Executor]:
    """Yield an executor of `$WORKERS` processes of Dask on this machine, 2 by default."""
    import dask
    from distributed import Client, LocalCluster

    count = int(os.environ.get("WORKERS", "2"))
    settings = {
        "distributed.scheduler.allowed-failures": 0,  # a run tries once more by itself
        "distributed.nanny.pre-spawn-environ": {},  # as many threads as here
    }
    with (
        dask.config.set(settings),
        LocalCluster(count, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as made,
        Client(made) as client,
    ):
        executor = client.get_executor(pure=False, retries=0)
        executor.max_workers = count
        yield executor
