"""Time and memory of the smoke suite and of the installed plugin.

    python -m benchmarks.smoke

Runs the suite in subprocesses, first with an empty store and then with the store that this left,
and the unused plugin against `-p no:grb_check`, in turn. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
STARTS = 15


def run(args: list[str], folder: Path) -> tuple[float, float]:
    """Return wall seconds and peak memory in MiB of one pytest run.

    Raises:
        SystemExit: the run was not green; its output is shown.
    """
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [*PYTEST, *args], cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            output.seek(0)
            raise SystemExit(output.read().decode())
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def smoke(folder: Path, name: str) -> dict[str, float]:
    """Measure one run of the smoke suite on the reference GCN."""
    report = folder / f"{name}.json"
    model = "--grb-model=grb_check.models:gcn"
    seconds, memory = run(["--grb-only", model, f"--grb-json={report}"], folder)
    cases = json.loads(report.read_text())["cases"]
    repeats = [repeat for case in cases for repeat in case["outcome"]["repeats"]]
    training = sum(repeat["training_seconds"] for repeat in repeats)
    return {
        "seconds": round(seconds, 2),
        "outside_the_models_training": round(seconds - training, 2),
        "peak_mib": round(memory),
        "perturbations_from_store": sum(repeat["from_store"] for repeat in repeats),
        "perturbations": len(repeats),
    }


def startup(folder: Path, args: list[str]) -> dict[str, float]:
    """Measure the cost of the unused plugin in milliseconds: medians of alternating runs."""
    run(args, folder)
    pairs = [
        (run(args, folder)[0], run(["-p", "no:grb_check", *args], folder)[0]) for _ in range(STARTS)
    ]
    differences = [1000 * (with_plugin - without) for with_plugin, without in pairs]
    return {
        "without_ms": round(1000 * statistics.median(without for _, without in pairs), 1),
        "added_ms": round(statistics.median(differences), 1),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_unrelated.py").write_text("def test_unrelated(): pass\n")
        figures = {
            "pytest --version": startup(folder, ["--version"]),
            "unrelated test": startup(folder, ["test_unrelated.py"]),
            "smoke, cold": smoke(folder, "cold"),
            "smoke, warm": smoke(folder, "warm"),
        }
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
