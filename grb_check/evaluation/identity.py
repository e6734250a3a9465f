"""The check that a finished model answers here as on the graph that the user gave.

The harness attacks undirected graphs without self-loops. A model that was trained on other edges is
another model on those that it gets: its figures would not be its own. Features are as given unless
an option says otherwise; see `feature_scale`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, remove_self_loops

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.errors import ModelError, count
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.user_code.randomness import isolated_randomness

TOLERATED: Final = 0.01  # share of predictions, and accuracy on the test nodes
_ADVICE: Final = {
    "self-loops": "give the graph without them (torch_geometric.utils.remove_self_loops), and "
    "train the model on that; layers such as GCNConv add their own",
    "duplicates": "give each edge once (torch_geometric.utils.coalesce), and train the model on "
    "that",
    "directions": "give two-way edges (torch_geometric.utils.to_undirected), and train the model "
    "on them",
}


def check_identity(model: TrainedModel, dataset: AnyDataset) -> None:
    """Check that a finished model's predictions are those on the graph as it was given.

    Args:
        model: with its predictions on the dataset.
        dataset: on the device; nothing is checked if it is no graph that a user gave.

    Raises:
        ModelError: more than `TOLERATED` differ; names the change of the graph that explains it.
    """
    if not isinstance(dataset, Dataset) or dataset.given_edges is None:
        return
    x, edges = dataset.graph.x, dataset.graph.edge_index
    given = dataset.given_edges.to(x.device)
    changes = _undone(edges, given, x.shape[0])
    if not changes:
        return
    answers = {name: _predicted(model, x, asked) for name, (_, asked) in changes.items()}
    expected = _predicted(model, x, given)
    nodes, truth = dataset.test["full"].cpu(), dataset.graph.y.cpu()
    share = float((model.predicted != expected).float().mean())
    before, after = (
        float((predicted[nodes] == truth[nodes]).float().mean())
        for predicted in (expected, model.predicted)
    )
    if share <= TOLERATED and abs(before - after) <= TOLERATED:
        return
    best = max(answers, key=lambda name: int((answers[name] == expected).sum()))
    told = ", ".join(text for text, _ in changes.values())
    raise ModelError(
        f"model {model.victim.name} is finished, and predicts {share:.1%} of the nodes otherwise "
        f"than on the graph that was given: {after:.1%} instead of {before:.1%} of the test nodes "
        f"are right; the graph was changed ({told}), and {changes[best][0]} explains most of it: "
        f"{_ADVICE[best]}"
    )


def _undone(edges: Tensor, given: Tensor, size: int) -> Mapping[str, tuple[str, Tensor]]:
    """Each change of the edges in words, and the edges int64 [2, e] with that alone undone."""
    result: dict[str, tuple[str, Tensor]] = {}
    plain = remove_self_loops(given)[0]
    loops = given[:, given[0] == given[1]]
    once = coalesce(plain, num_nodes=size)
    if loops.shape[1]:
        more = torch.cat([edges, coalesce(loops, num_nodes=size)], dim=1)
        result["self-loops"] = f"{count(loops.shape[1], 'self-loop')} dropped", more
    if once.shape[1] < plain.shape[1]:
        text = f"{count(plain.shape[1] - once.shape[1], 'duplicate edge')} merged"
        directed = once.shape[1] < edges.shape[1]
        result["duplicates"] = text, torch.cat([plain, plain.flip(0)], 1) if directed else plain
    if once.shape[1] < edges.shape[1]:
        one_way = count(edges.shape[1] - once.shape[1], "one-way edge")
        result["directions"] = f"{one_way} made two-way", once
    return result


def _predicted(model: TrainedModel, x: Tensor, edge_index: Tensor) -> Tensor:
    with isolated_randomness(0), torch.no_grad():
        return model.victim(x, edge_index).argmax(dim=1).cpu()
