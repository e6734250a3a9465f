"""Which properties models have: those of the harness, PyG's models and convolutions, sound ones.

    python -m benchmarks.conformance --models zoo
    python -m benchmarks.conformance --models pyg --explain
    python -m benchmarks.conformance --models sound --runs 50

`zoo` are the models of `grb_check.models`, trained on `synthetic-cora`, or on the set of graphs
`synthetic-molecules`; `pyg` are those of
`conformance_models`, untrained, asked about graphs with 8 features. `sound` are ten of the zoo,
trained on a small graph, of which each run draws other graphs: no property may fail in any of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Final

import torch

from benchmarks.conformance_models import CONVOLUTIONS, MODELS, Make
from benchmarks.rows import Row, markdown
from grb_check import Trained, datasets
from grb_check.conformance.check import check_property
from grb_check.conformance.check_model import trained_model
from grb_check.conformance.model import CheckedModel
from grb_check.conformance.properties import PropertyResult, names_of
from grb_check.errors import GrbCheckError
from grb_check.evaluation.evaluator import Evaluator
from grb_check.models.zoo import EVERY
from grb_check.store.place import open_store
from grb_check.victims.subject import Model, as_subject

SOUND: Final = (
    *("gcn", "gcn_ln", "gat", "gin", "appnp"),
    *("tagcn", "sage", "sgcn", "gprgnn", "gcn_jaccard"),
)
SMALL: Final = "benchmarks.conformance_models:small_graph"
SET: Final = "synthetic-molecules"
OF_GRAPHS: Final = ("graph_gcn", "graph_gin", "infograph", "graph_graphcl", "adgcl")
COLUMNS: Final = ("model", "breaks", "skipped", "notes", "seconds")
Named = tuple[str, Model, str]  # name, model, dataset
# Figures, and what does not depend on the graphs that are drawn.
ONCE: Final = ("scale", "state-dict", "label-leakage", "devices")


def checked(model: Model, dataset: str) -> CheckedModel:
    """Return a model as its properties are checked."""
    evaluator = Evaluator(store=open_store(None), device="cpu")
    source = datasets.find(dataset, datasets.Places(folders=()))
    return trained_model(evaluator, as_subject(model), source)


def found_of(model: CheckedModel, leave_out: Sequence[str] = ()) -> list[PropertyResult]:
    """Return what was found of each property."""
    names = names_of(of_graphs=model.of_graphs)
    return [check_property(model, name) for name in names if name not in leave_out]


def rows(models: Sequence[Named], *, explain: bool) -> Iterator[Row]:
    """Yield a row for each model."""
    for name, model, dataset in models:
        start = time.perf_counter()
        try:
            results = found_of(checked(model, dataset))
        except GrbCheckError as error:
            yield {"model": name, "breaks": f"cannot be called: {str(error).splitlines()[-1]}"}
            continue
        broken = [check for check in results if check.result == "fail"]
        for result in broken if explain else ():
            sys.stderr.write(f"\n{name}: {result.explanation}\n")
        yield {
            "model": name,
            "breaks": ", ".join(check.name for check in broken),
            "skipped": ", ".join(check.name for check in results if check.result == "skip"),
            "notes": "; ".join(
                check.note for check in results if check.result == "pass" and check.note
            ),
            "seconds": round(time.perf_counter() - start),
        }


def flapping(runs: int) -> Iterator[Row]:
    """Yield a row for each sound model: runs, checks, and the properties that failed in any."""
    for name in SOUND:
        start = time.perf_counter()
        model = checked(f"grb_check.models:{name}", SMALL)
        every = [check for _ in range(runs) for check in found_of(model, ONCE)]
        failed = [check for check in every if check.result == "fail"]
        for result in failed:
            sys.stderr.write(f"\n{name}: {result.explanation}\n")
        yield {
            "model": name,
            "runs": runs,
            "checks": sum(check.result == "pass" for check in every) + len(failed),
            "failures": len(failed),
            "seconds": round(time.perf_counter() - start),
        }


def of_pyg() -> list[Named]:
    """Return PyG's models and convolutions, untrained."""
    return [(name, _untrained(make), SMALL) for name, make in {**MODELS, **CONVOLUTIONS}.items()]


def of_zoo() -> list[Named]:
    """Return the models of the harness, each with a dataset of its kind."""
    names = [model.name for model in EVERY]
    return [
        (name, f"grb_check.models:{name}", SET if name in OF_GRAPHS else "synthetic-cora")
        for name in names
    ]


def _untrained(make: Make) -> Model:
    def build(num_features: int, num_classes: int) -> Trained:
        torch.manual_seed(0)
        return Trained(make(num_features, num_classes).eval())

    return build


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a Markdown table to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--models", choices=("zoo", "pyg", "sound"), default="pyg")
    parser.add_argument("--only", default="", help="names of some of them, with commas")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--explain", action="store_true", help="write the smallest graphs as well")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:  # hypothesis keeps failing graphs in the folder
        os.chdir(folder)
        columns: Sequence[str] = COLUMNS
        if options.models == "sound":
            columns = ("model", "runs", "checks", "failures", "seconds")
            table_rows = list(flapping(options.runs))
        else:
            chosen = of_zoo() if options.models == "zoo" else of_pyg()
            only = options.only.split(",") if options.only else [named[0] for named in chosen]
            selected = [named for named in chosen if named[0] in only]
            table_rows = list(rows(selected, explain=options.explain))
        sys.stdout.write(markdown(table_rows, columns))


if __name__ == "__main__":
    main()
