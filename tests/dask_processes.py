"""A Dask scheduler and workers, each a process of its own on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

SECONDS = 600  # until which a test fails instead of waiting for ever


class Cluster:
    """Args:
    folder: for files of Dask and for what it writes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        settings = {
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
            "DASK_TEMPORARY_DIRECTORY": str(folder),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self._environment = {**os.environ, **settings}
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler",
            "--host=127.0.0.1",
            "--port=0",
            "--no-dashboard",
            f"--scheduler-file={file}",
        )
        deadline = time.monotonic() + SECONDS
        while (address := _address(file)) is None:
            assert self.scheduler.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        self.address = address

    def add_worker(
        self, *options: str, path: Sequence[Path] = (), variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a worker.

        Args:
            options: of `dask worker`.
            path: to search for modules before those of the tests.
            variables: of its environment.
        """
        folders = [*map(str, path), *sys.path]
        return self._start(
            "worker",
            self.address,
            "--nthreads=1",
            "--no-dashboard",
            "--host=127.0.0.1",
            *options,
            variables={"PYTHONPATH": os.pathsep.join(folders), **(variables or {})},
        )

    def wait_for_workers(self, number: int) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(number, timeout=SECONDS)

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(
        self, *words: str, variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with (self._folder / f"{words[0]}-{len(self._processes)}.txt").open("wb") as written:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words],
                cwd=self._folder,
                stdout=written,
                stderr=subprocess.STDOUT,
                env={**self._environment, **(variables or {})},
            )
        self._processes.append(process)
        return process


def _address(file: Path) -> str | None:
    """Address of a scheduler; None while its file is not there, or is still being written."""
    try:
        address: str = json.loads(file.read_text())["address"]
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return address


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A scheduler without workers, which ends with them."""
    made = Cluster(folder)
    try:
        yield made
    finally:
        made.close()
