"""The command line of `gpu`, its processes and its tables."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import torch

from benchmarks.gpu_rows import ROWS, Job, Measurement, peaks
from benchmarks.rows import Row, markdown
from grb_check.errors import UsageError
from grb_check.evaluation.devices import resolve_device

NO_DEVICE: Final = 4
LEAST: Final = 15.0  # seconds, without which no row is begun
COLUMNS: Final = (
    "row",
    "device",
    "nodes",
    "edges",
    "seconds",
    "goal",
    "paper",
    "ms_per_step",
    "training_seconds",
    "clean",
    "attacked",
    "device_peak_mib",
    "peak_mib",
    "error",
)
PAIRS: Final = ("model", "attack", "cpu", "device", "cpu_seconds", "seconds", "same", "error")


def main(arguments: Sequence[str], description: str | None) -> int:
    """Run the rows that are missing and return the exit code."""
    options = _options(arguments, description)
    try:
        device = resolve_device(options.device)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return NO_DEVICE
    if device.type == "cpu" and options.scale == "full":
        sys.stderr.write("no GPU, and --scale full needs one; give --device cpu --scale small\n")
        return NO_DEVICE
    options.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    path = options.out / "rows.jsonl"
    for measurement in _waiting(read(path), options.rows):
        left = end - time.monotonic()
        if left < LEAST:
            break
        job = Job(
            graphs=str(options.graphs or options.out / "graphs"),
            device=str(device),
            scale=options.scale,
        )
        limit = min(left - LEAST / 3, measurement.limit)
        row = {"row": measurement.name, "goal": measurement.goal, "paper": measurement.paper}
        row |= {"scale": options.scale, "device": _named(device)}
        row |= in_process(measurement, job, limit)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    rows = read(path)
    text = report(rows)
    (options.out / "gpu.md").write_text(text, "utf-8")
    sys.stdout.write("\n" + text)
    missing = [entry.name for entry in options.rows if entry.name not in rows]
    failed = [name for name, row in rows.items() if failures(row)]
    for what, names in (("not run", missing), ("failed", failed)):
        if names:
            sys.stdout.write(f"\n{what}: {', '.join(names)}\n")
    return 1 if missing or failed else 0


def _options(arguments: Sequence[str], description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/gpu.py",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = {row.name: row for row in ROWS}
    parser.add_argument("--out", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--graphs", type=Path, help="folder of the graphs (default: OUT/graphs)")
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--scale", choices=("full", "small"), default="full")
    parser.add_argument("--rows", nargs="+", choices=list(known), help="default: all")
    options = parser.parse_args(arguments)
    options.rows = [known[name] for name in options.rows or known]
    return options


def read(path: Path) -> dict[str, Row]:
    """Return the last line of each row by name, in the order of `ROWS`."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    last = {row["row"]: row for row in map(json.loads, lines)}
    return {entry.name: last[entry.name] for entry in ROWS if entry.name in last}


def failures(row: Row) -> list[str]:
    """Return the errors of a row and of its attacks, and the figures that differ too much."""
    messages = [row["error"]] if row.get("error") else []
    for attack in row.get("attacks", []):
        if attack.get("error") or not attack.get("same"):
            what = attack.get("error", "other figures")
            messages.append(f"{attack['model']}, {attack['attack']}: {what}")
    return messages


def _waiting(done: dict[str, Row], chosen: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows that never ran, and then those that failed."""
    never = [row for row in chosen if row.name not in done]
    return never + [row for row in chosen if row.name in done and failures(done[row.name])]


def in_process(measurement: Measurement, job: Job, limit: float) -> Row:
    """Return the figures that a process of its own sent; after the limit those that it had sent."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(measurement, job, sender))
    begin, row = time.monotonic(), Row()
    process.start()
    sender.close()
    try:
        while True:
            if not receiver.poll(max(0.0, begin + limit - time.monotonic())):
                row["error"] = f"longer than {limit:.0f} s"
                break
            row |= receiver.recv()
    except EOFError:
        process.join()
        if not row.pop("finished", False) and "error" not in row:
            row["error"] = f"the process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()
    return row | {"wall_seconds": round(time.monotonic() - begin, 1)}


def _child(measurement: Measurement, job: Job, sender: Connection) -> None:
    """Send the figures of a row, piece by piece, and the memory that it took."""
    warnings.simplefilter("ignore")
    try:
        for figures in measurement.measure(job):
            sender.send(figures | peaks(job.device))
        sender.send({"finished": True})
    except Exception as error:  # it costs this row alone
        traceback.print_exc()
        sender.send({"error": f"{type(error).__name__}: {error}"[:500], **peaks(job.device)})
    sender.close()


def _named(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def report(rows: dict[str, Row]) -> str:
    """Return the tables in Markdown: rows with a duration, and attacks on both devices."""
    shown = [row | {"error": row.get("error") or None} for row in rows.values()]
    pairs = [pair for row in rows.values() for pair in row.get("attacks", [])]
    text = f"torch {torch.__version__}, Python {platform.python_version()}\n\n"
    text += markdown(shown, COLUMNS)
    return text + ("\n" + markdown(pairs, PAIRS) if pairs else "")
