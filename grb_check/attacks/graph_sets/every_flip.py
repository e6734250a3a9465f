"""Every flip of one pair of nodes in each graph of a set: under which does a graph lose its class?

A graph is asked for on its own, by one call of the model for each pair of its nodes, so that
nothing is assumed about what a flip reaches. Its edges are removed first.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.graph_list import GraphList, graph_list
from grb_check.attacks.modification.any_flip import ModificationAnyFlip, exact_trials_of
from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.modification.shared.removable import shortfall
from grb_check.attacks.modification.shared.single_flips import (
    ROUNDING,
    FlipQuestion,
    SingleFlips,
    every_flip,
)
from grb_check.attacks.modification.shared.whole_trials import MOST_WHOLE
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.attacks.verdicts import Verdicts
from grb_check.errors import ModelError, count

TOGETHER: Final = 64  # pairs, after which a graph that has fallen is left


def verdicts_of_graphs(
    attack: ModificationAnyFlip, graph: Data, threat: Threat, model: Any
) -> Verdicts:
    """Return what is known of each target, a graph with a budget of one flip.

    Args:
        attack: gives the seconds after which all others are undecided.
        graph: graphs side by side, clean, with true labels of the targets.
        threat: with `batch` and `edge_budgets`.
        model: a `Victim` of graphs.

    Raises:
        ModelError: graphs change each other's logits.
    """
    graphs = graph_list(graph, threat, model)
    end = None if attack.seconds is None else monotonic() + attack.seconds
    with torch.no_grad():
        logits = model(graph.x, graph.edge_index)
    targets = threat.targets.to(graph.x.device)
    asked = (logits.argmax(1) == graphs.labels)[targets] & (graphs.budgets[targets] > 0)
    double = model.in_double()
    pairs, fallen, undecided, tried = [], [], [], 0
    for index in asked.nonzero().squeeze(1).tolist():
        owner = int(targets[index])
        seconds = None if end is None else end - monotonic()
        if graphs.sizes[owner] > MOST_WHOLE or (seconds is not None and seconds <= 0):
            undecided.append(index)
            continue
        found = _of_graph(graphs, owner, logits[owner], double, seconds)
        tried += found.tried
        if found.undecided.any():
            undecided.append(index)
        elif (found.pairs >= 0).all():
            fallen.append(index)
            pairs.append(found.pairs.to(graph.x.device) + graphs.starts[owner])
    budget = int(graphs.budgets[targets].sum())
    why = shortfall(len(fallen), budget, "no other graph is known to fall to one flip")
    return Verdicts(
        perturbation=_joined(graphs.edges, pairs, why),
        fallen=torch.tensor(fallen, dtype=torch.int64),
        undecided=torch.tensor(undecided, dtype=torch.int64),
        tried=tried,
        basis="proven",
        notes=_too_large(graphs.sizes[targets[asked]]),
    )


def _of_graph(
    graphs: GraphList, owner: int, logits: Tensor, double: Any, seconds: float | None
) -> SingleFlips:
    """Return what single flips do to a graph on its own; its only row of logits is the target.

    Args:
        graphs: of the set.
        owner: the graph.
        logits: float [c], of the graph beside the others.
        double: the model in float64.
        seconds: see `every_flip`.
    """
    alone = torch.tensor([owner], device=graphs.x.device)
    copies = graphs.copies(alone)
    model: Any = copies.model
    nodes = torch.arange(int(graphs.starts[owner]), int(graphs.starts[owner + 1]))
    graph = Data(x=copies.x, edge_index=copies.edge_index, num_nodes=copies.x.shape[0])
    target = torch.zeros_like(alone)
    with torch.no_grad():
        alone_logits = model(graph.x, graph.edge_index)[0]
    if not _alike(alone_logits, logits):
        raise ModelError(
            f"model {model.name}: its answer for a graph depends on the other graphs that it is "
            f"given with it, so that nothing can be proven of one; attack it instead, as with "
            f"--grb-suite=graphs"
        )
    known = exact_trials_of(graph, model, target)
    question = FlipQuestion(
        x=graph.x,
        edges=copies.edges,
        targets=target,
        labels=copies.labels,
        model=model,
        double=double.on_graphs(copies.batch, nodes.to(graph.x.device)),
        answers=lambda _: known.trials,
        near=known.near,
        likely=copies.edges.ends(copies.edges.codes),
        together=TOGETHER,
    )
    return every_flip(question, seconds)


def _alike(one: Tensor, other: Tensor) -> bool:
    return bool(((one - other).abs() <= ROUNDING * other.abs().max()).all())


def _joined(edges: EdgeSet, pairs: list[Tensor], why: tuple[str, ...]) -> Perturbation:
    if not pairs:
        return Perturbation(notes=why)
    return edges.perturbation(edges.encode(torch.cat(pairs, dim=1)), why)


def _too_large(sizes: Tensor) -> tuple[str, ...]:
    large = int((sizes > MOST_WHOLE).sum())
    if not large:
        return ()
    return (f"{count(large, 'graph')} of more than {MOST_WHOLE} nodes not tried, undecided",)
