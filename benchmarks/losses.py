"""Kill random workers of runs with `kill -9`, and check what the runs say afterwards.

    python -m benchmarks.losses --runs 30
    python -m benchmarks.losses --runs 20 --dask

Each run has three workers and a store of its own, and is compared with one run in a single process.
Checked are, for each run: the exit code (0 if every case came back, 3 if some were lost); that the
record and the terminal name each case that was lost, or that the run says that nothing was measured
because workers died at the start, or that the function which makes the executor raised (exit code
4); that the record is the same, but for times, if all came back; and that no process and no lock of
a file stays behind. Needs psutil.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import filelock
import psutil

from benchmarks.rows import Row, markdown

WORKERS: Final = 3
ARGUMENTS: Final = [
    "--grb-only",
    "--grb-model=grb_check.models:gcn",
    "--grb-difficulty=easy",
    "--grb-attack=injection/rnd",
    "--grb-attack=injection/fgsm",
    "--grb-repeats=3",
    "--grb-max-drop=0.9",
]
# What a record says of when it was measured, and not of what.
TIMES: Final = {
    *("seconds", "training_seconds", "from_store", "measured_before"),
    *("date", "digest", "planned"),
}
COLUMNS: Final = ("run", "killed", "exit", "lost", "seconds", "wrong")
_NOT_BEGUN: Final = "nothing was measured"
_NO_EXECUTOR: Final = "raised, called without arguments"
_STARTED: Final = re.compile("popen_loky|spawn_main")  # of loky, of Dask
SECONDS: Final = 600  # after which a run hangs


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each run; `wrong` is empty if all is as it should be."""
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        expected = _Run(Path(folder), "here", []).finish()
    for number in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            where = (
                "--grb-executor=benchmarks.executors:dask_cluster"
                if options.dask
                else f"--grb-jobs={WORKERS}"
            )
            run = _Run(Path(folder), "processes", [where])
            killed = run.kill_some(chance, options.kills)
            result = run.finish()
            yield {
                "run": number,
                "killed": killed,
                "exit": result.exit_code,
                "lost": len(result.missing),
                "seconds": round(result.seconds, 1),
                "wrong": "; ".join(result.wrong(expected)),
            }


class _Found:
    """What a run has said and left behind."""

    def __init__(self, run: _Run, output: str, exit_code: int, seconds: float) -> None:
        path = run.folder / "run.json"
        self.record: Mapping[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self.missing: list[str] = self.record.get("missing", [])
        self.output = output
        self.exit_code = exit_code
        self.seconds = seconds
        self.left = run.processes_left()
        self.locks = run.locks_held()

    def wrong(self, expected: _Found) -> Iterator[str]:
        names = {case["node_id"] for case in expected.record["cases"]}
        judged = {case["node_id"] for case in self.record.get("cases", []) if case["verdict"]}
        lost = sorted(names - judged)
        if _NO_EXECUTOR in self.output:  # nothing has begun
            lost = []
        elif self.exit_code != (3 if lost else 0):
            yield f"exit code {self.exit_code}: {self.output[-500:]!r}"
        for name in lost if _NOT_BEGUN not in self.output else ():
            if name not in self.missing or name not in self.output:
                yield f"{name} is lost without its name: {self.output[-500:]!r}"
        if self.record and not lost and _timeless(self.record) != _timeless(expected.record):
            yield "another record"
        if self.left:
            yield f"processes left: {self.left}"
        if self.locks:
            yield f"locks held: {self.locks}"


class _Run:
    """A run of pytest in a session of its own."""

    def __init__(self, folder: Path, name: str, options: list[str]) -> None:
        self.folder = folder
        self._output = (folder / "output.txt").open("w+")
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", *ARGUMENTS, *options),
                *(f"--grb-store={folder / 'store'}", f"--grb-json={folder / 'run.json'}"),
                *(f"--rootdir={folder}", "-p", "no:cacheprovider"),
            ],
            cwd=folder,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "WORKERS": str(WORKERS),
            },
        )
        self._name = name

    def kill_some(self, chance: random.Random, most: int) -> int:
        """Kill up to so many workers at random moments, and return how many were."""
        killed = 0
        for _ in range(chance.randint(1, most)):
            pause = time.monotonic() + chance.uniform(0.5, 12)
            while time.monotonic() < pause and self._process.poll() is None:
                time.sleep(0.05)
            workers = self._workers()
            if workers:
                chance.choice(workers).send_signal(signal.SIGKILL)
                killed += 1
        return killed

    def finish(self) -> _Found:
        """Wait for the end of the run."""
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        seconds = time.monotonic() - self._began
        self._output.seek(0)
        output = self._output.read()
        self._output.close()
        return _Found(self, output, self._process.returncode, seconds)

    def _workers(self) -> list[psutil.Process]:
        """Workers: loky and Dask start them by modules of their own."""
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
            return sorted(
                (process for process in children if _STARTED.search(" ".join(process.cmdline()))),
                key=lambda process: process.pid,
            )
        except psutil.Error:  # one has ended meanwhile
            return []

    def processes_left(self, patience: float = 3) -> list[str]:
        """Return the commands of processes of the run that are alive some seconds later."""
        deadline = time.monotonic() + patience
        while (left := self._of_session()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def _of_session(self) -> list[str]:
        processes = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self._process.pid and process.status() != "zombie":
                    processes.append(" ".join(process.cmdline())[:80])
            except (OSError, psutil.Error):
                continue
        return processes

    def locks_held(self) -> list[str]:
        """Return the lock files in the run's folder that somebody holds."""
        held = []
        for path in self.folder.rglob("*.lock"):
            try:
                with filelock.FileLock(path, timeout=0):
                    pass
            except filelock.Timeout:
                held.append(path.name)
        return held


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in TIMES}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.losses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=30, help="number of runs (default: 30)")
    parser.add_argument("--dask", action="store_true", help="workers of Dask instead of loky's")
    parser.add_argument("--kills", type=int, default=4, help="most workers killed in a run")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the victims")
    table_rows = []
    for row in rows(parser.parse_args()):
        table_rows.append(row)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    sys.stdout.write("\n" + markdown(table_rows, COLUMNS))
    wrong = sum(bool(row["wrong"]) for row in table_rows)
    killed, lost = sum(row["killed"] for row in table_rows), sum(row["lost"] for row in table_rows)
    sys.stdout.write(f"\n{killed} workers killed, {lost} cases lost, {wrong} runs wrong\n")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
