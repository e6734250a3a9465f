"""Dask as an executor: a local cluster, or a scheduler that users have started.

Imports `distributed` when it is first used, so that only runs that name Dask need it.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Any, Final

from grb_check.errors import LostError, UsageError, count, one_line
from grb_check.execution.cores import cores

CONNECT_SECONDS: Final = 8
WORKER_SECONDS: Final = 60  # for the first worker to join
_RESOURCE: Final = "GPU"
# Those to which Dask gives a level of their own.
_LOGGERS: Final = ("distributed", "distributed.client", "distributed.gc")


class DaskWorkers:
    """Workers of a Dask scheduler.

    A task that needs a GPU is not told from others: if any worker offers the resource `GPU`, each
    task asks for one.

    Args:
        client: connected.
        stack: what ends with the client, closed after it.

    Raises:
        UsageError: no worker joins in time.
    """

    packages: tuple[str, ...] = ("distributed",)

    def __init__(self, client: Any, stack: ExitStack) -> None:
        self._client = client
        self._stack = stack
        address = client.scheduler.address
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise UsageError(
                f"the Dask scheduler at {address} has had no worker for {WORKER_SECONDS} s; start "
                f"some with: dask worker {address} --nthreads=1"
            ) from None
        workers, gpus = self._counts()
        self._with_gpu = gpus > 0
        self._width = gpus or workers
        asked = {_RESOURCE: 1} if gpus else None
        self.executor: Executor = client.get_executor(pure=False, retries=0, resources=asked)
        more = f", {count(gpus, 'GPU')}" if gpus else ""
        self.name = f"dask at {address}, {count(workers, 'worker')}{more}"

    @property
    def width(self) -> int:
        """One more than can run, so that no worker idles, and that a scheduler may add some."""
        with suppress(Exception):  # the scheduler is lost, which the tasks will tell
            workers, gpus = self._counts()
            self._width = gpus if self._with_gpu else workers
        return self._width + 1

    def call_each(self, function: Callable[..., Any], *args: Any) -> Mapping[str, Any]:
        found = self._client.run(function, *args, on_error="return")
        # A task, too: Dask's scheduler unpickles it, and so needs the packages as workers do.
        self.executor.submit(function, *args).result()
        for name, each in [*found.items()]:
            if isinstance(each, OSError):  # lost meanwhile
                del found[name]
            elif isinstance(each, BaseException):
                raise each
        return dict(found)

    def close(self) -> None:
        self.executor.shutdown(wait=False)
        self._client.close()
        self._stack.close()

    def _counts(self) -> tuple[int, int]:
        """Return the numbers of workers and of GPUs that they offer."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return len(workers), int(sum(each["resources"].get(_RESOURCE, 0) for each in workers))


def start_local(jobs: int | None) -> DaskWorkers:
    """Start a scheduler and workers on this machine: processes with one thread each.

    Args:
        jobs: number of workers; default: the cores that this process may use.

    Raises:
        UsageError: Dask is not installed.
        LostError: a worker died while it started.
    """
    distributed = _distributed()
    import dask  # dask comes with distributed, which is loaded by now

    stack = _quiet_stack()
    with _closed_on_error(stack):
        folder = stack.enter_context(
            TemporaryDirectory(prefix="grb_check-", ignore_cleanup_errors=True)
        )
        # A worker lost is reported at once, so that its task is tried once more and no oftener; and
        # numeric libraries have the threads of this process, on which rounding depends.
        settings = {
            "distributed.scheduler.allowed-failures": 0,
            "distributed.nanny.pre-spawn-environ": {},
            "temporary-directory": folder,
        }
        with dask.config.set(settings), _lost_if_killed():
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=jobs or cores(),
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    memory_limit=None,  # else, a worker is killed for its share of the memory
                    preload=[__name__],  # calls `dask_setup`
                    silence_logs=logging.CRITICAL,
                )
            )
        return DaskWorkers(_client(cluster), stack)


def dask_setup(_: object) -> None:
    """Let Ctrl-C be for the process that runs pytest; Dask calls it in each worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def connect(address: str) -> DaskWorkers:
    """Connect to a scheduler, as `tcp://10.0.0.5:8786`.

    Raises:
        UsageError: Dask is not installed; the text is no address; nothing answers there, or there
            is no worker.
    """
    if not re.fullmatch(r"[a-z]+://[^\s/]+:\d+", address):
        raise UsageError(
            f"--grb-executor=dask:{address}: write the address that `dask scheduler` shows, as "
            f"dask:tcp://HOST:PORT"
        )
    _distributed()
    stack = _quiet_stack()
    with _closed_on_error(stack):
        try:
            client = _client(address)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--grb-executor=dask:{address}: no Dask scheduler answered within "
                f"{CONNECT_SECONDS} s ({one_line(error)}); start one with `dask scheduler`, and "
                f"check the address and the firewall"
            ) from error
        return DaskWorkers(client, stack)


def is_client(made: object) -> bool:
    """Return whether an object is a Dask client, without importing Dask."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(made, distributed.Client)


def adopt(client: Any) -> DaskWorkers:
    """Take over a client that a user's factory made; its cluster is closed with it.

    Raises:
        UsageError: no worker joins in time.
    """
    stack = _quiet_stack()
    if client.cluster is not None:
        stack.enter_context(client.cluster)
    with _closed_on_error(stack):
        return DaskWorkers(client, stack)


def _distributed() -> Any:
    try:
        import distributed  # see the docstring of the module
    except ImportError as error:
        raise UsageError(
            f"--grb-executor=dask needs Dask, which is not installed ({one_line(error)}); "
            f"pip install 'grb-check[dask]'"
        ) from error
    return distributed


def _client(address: Any) -> Any:
    distributed = _distributed()
    with warnings.catch_warnings():
        # Versions are compared elsewhere, with those of the numeric libraries.
        warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)


def _quiet_stack() -> ExitStack:
    """Return a stack until whose end Dask logs nothing: lost workers are reported by the run."""
    stack = ExitStack()
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
    return stack


@contextmanager
def _lost_if_killed() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostError(
            f"--grb-executor=dask: a worker of the local cluster died while it started "
            f"({one_line(error.__cause__ or error)}); there may not be enough memory for so many: "
            f"give fewer with --grb-jobs"
        ) from error


@contextmanager
def _closed_on_error(stack: ExitStack) -> Iterator[None]:
    try:
        yield
    except BaseException:
        stack.close()
        raise
