"""What defences keep: clean, under attacks that do not know them, and under attacks that do.

    python -m benchmarks.defences --data FOLDER --models gcn,gcn_svd --datasets planetoid-cora

The question of Mujkanovic et al. 2022, "Are Defenses for Graph Neural Networks Robust?", on the
public split of Planetoid, the whole graph in training, rows of features that sum to 1, test nodes
attacked after training. `black-box` is the lowest accuracy under the attacks that see a surrogate
GCN, `adaptive` that under the attacks on the model itself, with the name of the strongest. A run
that was stopped goes on where it was, if `--store` is given. Seconds are of all cases.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grb_check
from benchmarks.rows import Row, markdown
from grb_check.ranking.lowest import Strongest
from grb_check.reports.record import RunRecord
from grb_check.reports.summary import summary_of

BLACK_BOX: Final = ("dice", "prbcd+black-box", "grbcd+black-box")
ADAPTIVE: Final = ("prbcd", "grbcd", "eva")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each model, dataset and budget."""
    for model in options.models.split(","):
        for dataset in options.datasets.split(","):
            record = grb_check.run(
                f"{model}=grb_check.models:{model}",
                dataset=dataset,
                data=str(options.data),
                split="given",
                training="transductive",
                features="rows",
                difficulty="full",
                attack=[
                    f"modification/{name}" for name in (*BLACK_BOX, *options.attacks.split(","))
                ],
                budget=options.budgets,
                repeats=options.repeats,
                max_drop=1.0,
                store="off" if options.store is None else str(options.store),
                resume=options.store is not None,
            )
            yield from _rows(record, model, dataset)


def _rows(record: RunRecord, model: str, dataset: str) -> Iterator[Row]:
    outcomes = [case.outcome for case in record.cases if case.outcome is not None]
    failed = [case for case in record.cases if case.outcome is None]
    seconds = sum(outcome.seconds for outcome in outcomes)
    for entry in summary_of(record).lowest:
        findings = sorted(
            {
                finding.name
                for outcome in outcomes
                if outcome.adaptive and outcome.case.attack.endswith(entry.threat.split("+")[-1])
                for finding in outcome.findings
            }
        )
        yield {
            "model": model,
            "dataset": dataset,
            "threat": entry.threat,
            "clean": _percent(outcomes[0].clean),
            "black-box": _left(entry.black_box),
            "adaptive": _left(entry.adaptive),
            "strongest": "" if entry.adaptive is None else entry.adaptive.attack.split("/")[1],
            "GCN, black-box": _reference(entry.black_box),
            "GCN, adaptive": _reference(entry.adaptive),
            "diagnostics": ", ".join(findings),
            "failed": len(failed),
            "seconds": round(seconds),
        }


def _left(strongest: Strongest | None) -> float | None:
    return None if strongest is None else _percent(strongest.accuracy.mean)


def _reference(strongest: Strongest | None) -> float | None:
    return None if strongest is None else _percent(strongest.reference.mean)


def _percent(share: float) -> float:
    return round(100 * share, 1)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.defences",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of Planetoid's graphs")
    parser.add_argument("--models", required=True, help="names of grb_check.models, with commas")
    parser.add_argument("--datasets", default="planetoid-cora,planetoid-citeseer")
    parser.add_argument("--attacks", default=",".join(ADAPTIVE), help="that know the model")
    parser.add_argument("--budgets", default="0.05,0.1")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--store", type=Path, help="folder for finished measurements")
    table_rows = []
    for row in rows(parser.parse_args()):
        table_rows.append(row)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    sys.stdout.write("\n" + markdown(table_rows, tuple(table_rows[0])))


if __name__ == "__main__":
    main()
