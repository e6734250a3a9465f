"""Clean accuracy of the seven reference models on Planetoid's graphs, beside published figures.

Each model has the sizes and the training of its own paper, not GRB's: the public split, the whole
graph in training, rows of features that add up to 1, Adam, the state of highest validation
accuracy, and of lowest validation loss among these.
GraphSAGE's and GIN's papers have no figure for these graphs: beside them stand PyG's own models,
trained here in the same way.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import SGConv
from torch_geometric.nn import models as pyg

from benchmarks.modification.arena import public_planetoid
from benchmarks.rows import Row, grouped, markdown
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.devices import threads_for
from grb_check.models.reference.appnp import APPNP
from grb_check.models.reference.gat import GAT
from grb_check.models.reference.gcn import GCN
from grb_check.models.reference.gin import GIN
from grb_check.models.reference.sage import GraphSAGE
from grb_check.models.reference.sgcn import SGCN
from grb_check.models.reference.tagcn import TAGCN
from grb_check.user_code.randomness import isolated_randomness

Make = Callable[[int, int], nn.Module]
PYG: Final = "PyG's own model, measured here"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One model with its paper's training.

    Attributes:
        make: from numbers of features and classes to the untrained module.
        source: of the hyper-parameters.
        published: accuracy on Cora in percent, or nothing.
        input_dropout: on the features, drawn here for those that are not 0, which are few.
        first_only: whether the weight decay is for the first layer alone.
    """

    make: Make
    source: str
    published: float | None = None
    lr: float = 0.01
    weight_decay: float = 5e-4
    first_only: bool = False
    epochs: int = 200
    patience: int = 100
    input_dropout: float = 0.0


def _remembering(model: SGCN) -> SGCN:
    """Cache the propagated features in the only convolution; they never change here."""
    cast(SGConv, model.convolutions[0]).cached = True
    return model


RECIPES: Final[dict[str, Recipe]] = {
    "GCN": Recipe(
        make=lambda d, c: GCN(d, c, (16,), dropout=0.5),
        input_dropout=0.5,
        source="Kipf & Welling 2017, table 2",
        published=81.5,
        first_only=True,
    ),
    "GAT": Recipe(
        make=lambda d, c: GAT(
            d, c, (8,), num_heads=8, output_heads=1, dropout=0.6, attention_dropout=0.6
        ),
        input_dropout=0.6,
        source="Veličković et al. 2018, table 2",
        published=83.0,
        lr=0.005,
        epochs=1000,
    ),
    "APPNP": Recipe(
        make=lambda d, c: APPNP(d, c, (64,), alpha=0.1, dropout=0.5),
        input_dropout=0.5,
        source="Klicpera et al. 2019, without dropout of edges; the figure: Fey & Lenssen 2019",
        published=83.3,
        weight_decay=5e-3,
        first_only=True,
        epochs=1000,
    ),
    "SGCN": Recipe(
        make=lambda d, c: _remembering(SGCN(d, c, (), k=2)),
        source="Wu et al. 2019, table 2",
        published=81.0,
        lr=0.2,
        weight_decay=1.3e-5,
        epochs=100,
    ),
    "TAGCN": Recipe(
        make=lambda d, c: TAGCN(d, c, (16,), k=2, dropout=0.5),
        input_dropout=0.5,
        source="Du et al. 2017, table 2",
        published=83.3,
    ),
    "SAGE": Recipe(
        make=lambda d, c: GraphSAGE(d, c, (64,), dropout=0.5, pool=False),
        input_dropout=0.5,
        source="the GCN's training",
    ),
    "GIN": Recipe(
        make=lambda d, c: GIN(d, c, (64, 64), dropout=0.5),
        source="the GCN's training",
        input_dropout=0.5,
    ),
    "PyG GraphSAGE": Recipe(
        make=lambda d, c: pyg.GraphSAGE(d, 64, 2, c, dropout=0.5),
        source=PYG,
        input_dropout=0.5,
    ),
    "PyG GIN": Recipe(
        make=lambda d, c: pyg.GIN(d, 64, 2, c, dropout=0.5),
        source=PYG,
        input_dropout=0.5,
    ),
}
COLUMNS: Final = ("data", "model", "clean", "deviation", "published", "seconds", "source")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="has planetoid/NAME/raw/ind.*")
    parser.add_argument("--datasets", nargs="+", default=["Cora"], help="of Planetoid")
    parser.add_argument("--models", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--seeds", type=int, default=5)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each dataset, model and seed."""
    for name in options.datasets:
        dataset = public_planetoid(options.data / "planetoid", name)
        with threads_for(dataset.num_nodes):
            for model in options.models:
                for seed in range(options.seeds):
                    start = time.perf_counter()
                    clean = accuracy_of(RECIPES[model], dataset, seed)
                    seconds = round(time.perf_counter() - start, 2)
                    yield {
                        "data": name,
                        "model": model,
                        "seed": seed,
                        "clean": round(100 * clean, 2),
                        "seconds": seconds,
                    }


def table(rows: Sequence[Row]) -> str:
    """Return mean and deviation over the seeds beside the published figure, which is for Cora."""
    lines = []
    for (data, model), group in grouped(rows, ("data", "model")).items():
        figures = [row["clean"] for row in group]
        recipe = RECIPES[model]
        lines.append(
            {
                "data": data,
                "model": model,
                "clean": round(statistics.fmean(figures), 2),
                "deviation": round(statistics.stdev(figures), 2) if len(figures) > 1 else None,
                "published": recipe.published if data == "Cora" else None,
                "seconds": round(statistics.fmean(row["seconds"] for row in group), 1),
                "source": recipe.source,
            }
        )
    return markdown(lines, COLUMNS)


def accuracy_of(recipe: Recipe, dataset: Dataset, seed: int) -> float:
    """Return the test accuracy after training."""
    x, edge_index, y = dataset.graph.x, dataset.graph.edge_index, dataset.graph.y
    x = x / x.sum(dim=1, keepdim=True).clamp(min=1.0)
    with isolated_randomness(seed):
        model = recipe.make(x.shape[1], dataset.num_classes)
        optimizer = torch.optim.Adam(_groups(model, recipe), lr=recipe.lr)

        forward = _on_topology(model, edge_index, dataset.num_nodes)

        dropped = _dropout(x, recipe.input_dropout)
        best, lowest, state, waited = (-1.0, 0.0), float("inf"), model.state_dict(), 0
        for _ in range(recipe.epochs):
            model.train()
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(dropped())[dataset.train], y[dataset.train])
            torch.autograd.backward(loss)
            optimizer.step()
            model.eval()
            with torch.no_grad():
                now = _validated(forward(x)[dataset.val], y[dataset.val])
            # The accuracy of a slow starter stands still at first, while its loss sinks.
            waited = 0 if now > best or -now[1] < lowest else waited + 1
            lowest = min(lowest, -now[1])
            if now > best:
                best, state = now, copy.deepcopy(model.state_dict())
            if waited > recipe.patience:
                break
        model.load_state_dict(state)
        test = dataset.test["full"]
        with torch.no_grad():
            right = forward(x)[test].argmax(dim=1) == y[test]
    return float(right.float().mean())


def _validated(logits: Tensor, truth: Tensor) -> tuple[float, float]:
    """Return the accuracy and the negative loss."""
    right = logits.argmax(dim=1) == truth
    return float(right.float().mean()), -float(F.cross_entropy(logits, truth))


def _dropout(x: Tensor, probability: float) -> Callable[[], Tensor]:
    """Return a function that applies dropout to the features that are not 0."""
    if probability == 0:
        return lambda: x
    places = x.nonzero(as_tuple=True)
    values = x[places]
    return lambda: torch.zeros_like(x).index_put(places, F.dropout(values, probability))


def _on_topology(
    model: nn.Module, edge_index: Tensor, num_nodes: int
) -> Callable[[Tensor], Tensor]:
    """Return the model with its graph prepared once, if it supports that."""
    prepare = getattr(model, "on_topology", None)
    if prepare is None:
        return lambda x: model(x, edge_index)
    prepared: Callable[[Tensor], Tensor] = prepare(edge_index, num_nodes)
    return prepared


def _groups(model: nn.Module, recipe: Recipe) -> list[dict[str, Any]]:
    """Return groups of parameters with their weight decay."""
    every = list(model.parameters())
    first = every
    if recipe.first_only:
        first = list(model.get_submodule("layers.0").parameters())
    rest = [p for p in every if all(p is not one for one in first)]
    return [{"params": first, "weight_decay": recipe.weight_decay}, {"params": rest}]
