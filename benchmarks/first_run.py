"""What the default run costs beside the user's own training, and the plugin where it is not used.

    python -m benchmarks.first_run
    python -m benchmarks.first_run --models gin --starts 0

For each of the models, one run with an empty store, in a process of its own, beside the smallest
run: one case and one repeat, of which all but the training counts as imports. Prints a JSON line
for each, and then the table. A ratio is of the whole run to what nobody saves: imports, trainings.
The unused plugin is measured against runs without it, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.rows import Row, markdown

PYTEST: Final = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
MODELS: Final = ("gcn", "gat", "sage", "gin", "appnp", "gprgnn")
COLUMNS: Final = (
    "model",
    "imports",
    "training",
    "white_box",
    "black_box",
    "rest",
    "seconds",
    "ratio",
    "peak_mib",
)
SMALLEST: Final = ("--grb-difficulty=easy", "--grb-attack=injection/rnd", "--grb-repeats=1")
WITHOUT: Final = ("-p", "no:grb_check", "-p", "no:grb_conformance")
FAILED_CASES: Final = 1  # exit code of a run that measured everything


def run(args: Sequence[str], folder: Path) -> tuple[float, float]:
    """Return wall seconds and peak memory in MiB of one pytest run.

    Raises:
        SystemExit: it did not run to its end; its output is shown.
    """
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [*PYTEST, *args], cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) not in (0, FAILED_CASES):
            output.seek(0)
            raise SystemExit(output.read().decode())
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def first_run(model: str, folder: Path) -> Row:
    """Measure the default run of a model of the zoo, in seconds of wall time."""
    record = folder / f"{model}.json"
    given = ["--grb-only", f"--grb-model=grb_check.models:{model}", f"--grb-json={record}"]
    smallest, _ = run([*given, *SMALLEST, f"--grb-store={folder / 'smallest'}"], folder)
    imports = smallest - _parts(record)["training"]
    seconds, memory = run([*given, f"--grb-store={folder / model}"], folder)
    parts = _parts(record)
    return {
        "model": model,
        "imports": imports,
        **parts,
        "rest": seconds - imports - sum(parts.values()),
        "seconds": seconds,
        "ratio": seconds / (imports + parts["training"]),
        "peak_mib": memory,
    }


def _parts(record: Path) -> dict[str, float]:
    """Seconds of training, and of what else the repeats of a run's cases took."""
    cases = json.loads(record.read_text("utf-8"))["cases"]
    parts = {"training": 0.0, "white_box": 0.0, "black_box": 0.0}
    for case in cases:
        kind = "white_box" if case["id"].endswith("+white-box") else "black_box"
        for repeat in case["outcome"]["repeats"]:
            parts["training"] += repeat["training_seconds"]
            parts[kind] += repeat["seconds"] - repeat["training_seconds"]
    return parts


def startup(folder: Path, args: Sequence[str], starts: int) -> Row:
    """Measure the cost of the unused plugin in milliseconds: medians of alternating runs."""
    run(args, folder)
    pairs = [(run(args, folder)[0], run([*WITHOUT, *args], folder)[0]) for _ in range(starts)]
    added = [1000 * (with_plugin - without) for with_plugin, without in pairs]
    return {
        "unused": " ".join(args),
        "without_ms": round(1000 * statistics.median(without for _, without in pairs), 1),
        "added_ms": round(statistics.median(added), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_run", description=__doc__)
    parser.add_argument("--models", nargs="*", default=MODELS, help="of grb_check.models")
    parser.add_argument("--starts", type=int, default=15, help="of pytest without the plugin")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in options.models:
            row = first_run(model, folder)
            rounded = {key: round(x, 2) if isinstance(x, float) else x for key, x in row.items()}
            sys.stdout.write(json.dumps(rounded) + "\n")
            sys.stdout.flush()
            rows.append(rounded)
        (folder / "test_unrelated.py").write_text("def test_unrelated(): pass\n")
        for args in (["--version"], ["test_unrelated.py"]) if options.starts else ():
            sys.stdout.write(json.dumps(startup(folder, args, options.starts)) + "\n")
    sys.stdout.write("\n" + markdown(rows, COLUMNS))


if __name__ == "__main__":
    main()
