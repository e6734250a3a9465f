"""Detectors of a rare class beside print, and what gangs leave of them.

    python -m benchmarks.fraud --data FOLDER/heterophilous --graphs minesweeper --share 0.05

Minesweeper and Tolokers of `A critical look at the evaluation of GNNs under heterophily
<https://arxiv.org/abs/2302.11640>`_ (Platonov et al. 2023), the first of their ten splits. The
models are as there, smaller: a linear layer, then residual blocks with layer normalisation around
a convolution. Beside them a perceptron and logistic regression on the features, and one on the
degree. One repeat; a measurement that the store has is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import to_undirected

import grb_check
from benchmarks.rows import Row, markdown
from grb_check.attacks.scenarios import MODIFICATION
from grb_check.cases.outcomes import Outcome
from grb_check.reports.record import RunRecord

FOLDER: Final = "GRB_CHECK_HETEROPHILOUS"  # names the folder for the functions that load a graph
WIDTH: Final = 64
BLOCKS: Final = 3
HEADS: Final = 4
DROPOUT: Final = 0.2
MARKS: Final = ("mlp", "logistic_regression", "degree")
GANGS: Final = tuple(f"camouflage+gang={size}x{edges}" for size in (10, 40) for edges in (1, 3, 5))
ATTACKS: Final = ("rnd", "rnd+gang=10x3", *GANGS)


class Residual(nn.Module):
    """A linear layer, blocks h + dropout(relu(convolution(norm(h)))), and a linear layer.

    Args:
        convolution: of the width of the hidden rows to the same.
        num_features: columns of `x`.
        num_classes: columns of the logits.
    """

    def __init__(
        self, convolution: Callable[[], nn.Module], num_features: int, num_classes: int
    ) -> None:
        super().__init__()
        self.first = nn.Linear(num_features, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(BLOCKS))
        self.convolutions = nn.ModuleList(convolution() for _ in range(BLOCKS))
        self.last = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, num_classes))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        h = self.dropout(self.first(x).relu())
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            h = h + self.dropout(convolution(norm(h), edge_index).relu())
        logits: Tensor = self.last(h)
        return logits


def gcn(num_features: int, num_classes: int) -> Residual:
    return Residual(lambda: GCNConv(WIDTH, WIDTH), num_features, num_classes)


def sage(num_features: int, num_classes: int) -> Residual:
    return Residual(lambda: SAGEConv(WIDTH, WIDTH), num_features, num_classes)


def gat(num_features: int, num_classes: int) -> Residual:
    return Residual(lambda: GATConv(WIDTH, WIDTH // HEADS, heads=HEADS), num_features, num_classes)


def minesweeper() -> Data:
    return _graph("minesweeper")


def tolokers() -> Data:
    return _graph("tolokers")


def _graph(name: str) -> Data:
    raw = np.load(Path(os.environ[FOLDER]) / f"{name}.npz")
    masks = {
        f"{part}_mask": torch.from_numpy(raw[f"{part}_masks"].T.copy())
        for part in ("train", "val", "test")
    }
    return Data(
        x=torch.from_numpy(raw["node_features"]).float(),
        y=torch.from_numpy(raw["node_labels"]).long(),
        edge_index=to_undirected(torch.from_numpy(raw["edges"].T.copy()).long()),
        **masks,
    )


def measured(graph: str, options: argparse.Namespace) -> RunRecord:
    """Attack all models on a graph."""
    targets = [f"{name}=benchmarks.fraud:{name}" for name in options.models]
    targets += [f"{name}=grb_check.models:{name}" for name in MARKS]
    return grb_check.run(
        targets,
        dataset=f"benchmarks.fraud:{graph}#1",
        split="given",
        training="transductive",
        metric=f"recall@{options.share}",
        difficulty="full",
        attack=[name if "/" in name else f"modification/{name}" for name in options.attacks],
        repeats=1,
        max_drop=1.0,
        min_clean=0.0,
        store=str(options.store),
    )


def rows(graph: str, record: RunRecord) -> list[Row]:
    """Return a row for each model: clean figures of all targets, and what each attack leaves."""
    by_model: dict[str, list[Outcome]] = {}
    for case in record.cases:
        if case.outcome is not None:
            by_model.setdefault(case.case.model, []).append(case.outcome)
    result: list[Row] = []
    for model, outcomes in by_model.items():
        row: Row = {"graph": graph, "model": model}
        for outcome in outcomes:
            if "gang" not in outcome.case.attack:
                row["ROC-AUC"] = _percent(outcome.mean_ranking(lambda made: made.roc_auc)[0])
                row["clean"] = _percent(outcome.clean)
            row[_name(outcome)] = _sides(outcome.clean, outcome.attacked)
            others = outcome.mean_ranking(lambda made: made.other_recall)
            if len(others) == 2:  # nodes of the class that are in no gang
                row[f"others under {_name(outcome)}"] = _sides(*others)
        result.append(row)
    return result


def _name(outcome: Outcome) -> str:
    case = outcome.case
    return case.attack if case.scenario == MODIFICATION else f"{case.scenario}/{case.attack}"


def _sides(clean: float, attacked: float) -> str:
    return f"{_percent(clean)} > {_percent(attacked)}"


def _percent(share: float) -> float:
    return round(100 * share, 1)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fraud",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of GRAPH.npz")
    parser.add_argument("--graphs", nargs="+", default=["minesweeper", "tolokers"])
    parser.add_argument("--models", nargs="+", default=["gcn", "sage", "gat"])
    parser.add_argument("--attacks", nargs="+", default=ATTACKS, help="or injection/NAME")
    parser.add_argument("--share", type=float, default=0.05, help="of false alarms")
    parser.add_argument("--store", type=Path, default=Path(".grb_check"))
    options = parser.parse_args()
    os.environ[FOLDER] = str(options.data.absolute())
    table: list[Row] = []
    for graph in options.graphs:
        for row in rows(graph, measured(graph, options)):
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
            table.append(row)
    sys.stdout.write("\n" + markdown(table, tuple(table[0])))


if __name__ == "__main__":
    main()
