"""Dask as an executor: a local cluster, or a scheduler that users have started.

Imports `distributed` when it is first used, so that only runs that name Dask need it.
"""

from __future__ import annotations

import logging
import signal
import warnings
from contextlib import ExitStack, suppress
from typing import Any, Final

from grb_check.errors import LostError, UsageError, count, one_line
from grb_check.execution.calls import Workers
from grb_check.execution.resources import cores

CONNECT_SECONDS: Final = 8
WORKER_SECONDS: Final = 60  # for the first worker to join
# Those to which Dask gives a level of their own.
_LOGGERS: Final = ("distributed", "distributed.client", "distributed.gc")
# A lost worker is reported at once, so that its task is run once more and no oftener; and numeric
# libraries have the threads of this process, on which rounding depends.
_SETTINGS: Final = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.nanny.pre-spawn-environ": {},
}


def dask_workers(address: str, jobs: int | None) -> Workers:
    """Connect to a scheduler, or start one with processes of one thread each on this machine.

    Args:
        address: of a scheduler, as `tcp://10.0.0.5:8786`; empty to start one.
        jobs: number of workers to start; default: the cores that this process may use.

    Raises:
        UsageError: Dask is not installed; nothing answers, or there is no worker.
        LostError: a worker died while it started.
    """
    label = f"--grb-executor=dask{':' if address else ''}{address}"
    try:
        import dask
        import distributed  # see the docstring of the module
    except ImportError as error:
        raise UsageError(
            f"{label} needs Dask, which is not installed ({one_line(error)}); "
            f"pip install 'grb-check[dask]'"
        ) from error
    stack = _quiet_stack()
    try:
        with dask.config.set(_SETTINGS), warnings.catch_warnings():
            # Versions are compared by the tasks, with those of the numeric libraries.
            warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
            cluster = address or stack.enter_context(_local_cluster(distributed, jobs or cores()))
            client = stack.enter_context(_client(distributed, cluster))
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except (OSError, ValueError, RuntimeError, distributed.TimeoutError) as error:
        stack.close()
        raise _explained(label, address, error) from error
    executor = client.get_executor(pure=False, retries=0)

    def workers() -> int:
        with suppress(Exception):  # the scheduler is lost, which the tasks will tell
            return len(client.scheduler_info(n_workers=-1)["workers"])
        return 0

    def close() -> None:
        executor.shutdown(wait=False)
        stack.close()

    name = f"dask at {client.scheduler.address}, {count(workers(), 'worker')}"
    # One more than can run, so that no worker idles, and that a scheduler may add some.
    return Workers(executor=executor, name=name, width=lambda: workers() + 1, close=close)


def dask_setup(_: object) -> None:
    """Let Ctrl-C be for the process that runs pytest; Dask calls it in each worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _local_cluster(distributed: Any, jobs: int) -> Any:
    return distributed.LocalCluster(
        n_workers=jobs,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=None,  # else, a worker is killed for its share of the memory
        preload=[__name__],  # calls `dask_setup`
        silence_logs=logging.CRITICAL,
    )


def _client(distributed: Any, cluster: Any) -> Any:
    return distributed.Client(cluster, timeout=CONNECT_SECONDS, set_as_default=False)


def _explained(label: str, address: str, error: Exception) -> UsageError | LostError:
    if not address:
        return LostError(
            f"{label}: a worker of the local cluster died while it started "
            f"({one_line(error.__cause__ or error)}); there may not be enough memory for so many: "
            f"give fewer with --grb-jobs"
        )
    return UsageError(
        f"{label}: no Dask scheduler with a worker answered ({one_line(error)}); start one by "
        f"`dask scheduler`, and workers by `dask worker {address} --nthreads=1`, and check the "
        f"address and the firewall"
    )


def _quiet_stack() -> ExitStack:
    """Return a stack until whose end Dask logs nothing: lost workers are reported by the run."""
    stack = ExitStack()
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
    return stack
