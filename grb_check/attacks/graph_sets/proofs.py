"""What is known of each graph of a set, of an attack that tries every change of a kind.

A graph is asked for on its own, by one call of the model for each change, so that nothing is
assumed about what a flip reaches. Its edges are removed first.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.graph_list import GraphList, graph_list
from grb_check.attacks.modification.shared.edge_set import EdgeSet
from grb_check.attacks.modification.shared.flip_set_search import FlipQuestion
from grb_check.attacks.modification.shared.proofs import ExactSearch, exact_trials_of, many_sets
from grb_check.attacks.modification.shared.removable import shortfall
from grb_check.attacks.modification.shared.whole_trials import MOST_WHOLE
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.attacks.verdicts import Tell, Verdicts, untold
from grb_check.errors import ModelError, count

ALIKE: Final = 1e-3  # of the largest logit
TOGETHER: Final = 64  # pairs, after which a graph that has fallen is left


def verdicts_of_graphs(
    search: ExactSearch, graph: Data, threat: Threat, model: Any, tell: Tell = untold
) -> Verdicts:
    """Return what is known of each target, a graph.

    Args:
        search: the attack.
        graph: graphs side by side, clean, with true labels of the targets.
        threat: with `batch` and `edge_budgets`.
        model: a `Victim` of graphs.
        tell: see `ProvingAttack.verdicts`.

    Raises:
        ModelError: graphs change each other's logits.
    """
    graphs = graph_list(graph, threat, model)
    end = None if search.seconds is None else monotonic() + search.seconds
    with torch.no_grad():
        logits = model(graph.x, graph.edge_index)
    targets = threat.targets.to(graph.x.device)
    asked = (logits.argmax(1) == graphs.labels)[targets] & (graphs.budgets[targets] > 0)
    double = model.in_double()
    pairs, sizes, undecided = [], torch.zeros_like(targets), torch.zeros_like(asked)
    tried = too_many = 0
    done = _done_before(graphs.sizes[targets] * asked)
    for index in asked.nonzero().squeeze(1).tolist():
        tell(done[index])
        owner = int(targets[index])
        seconds = None if end is None else end - monotonic()
        if graphs.sizes[owner] > MOST_WHOLE or (seconds is not None and seconds <= 0):
            undecided[index] = True
            continue
        found = search.found(_question(graphs, owner, logits[owner], double), seconds)
        tried += found.tried
        undecided[index] = found.undecided[0]
        too_many += int(found.too_many[0])
        sizes[index] = found.sizes[0]
        if (some := found.sets[0]) is not None:
            pairs.append(some.to(graph.x.device) + graphs.starts[owner])
    budget = int(graphs.budgets[targets].sum())
    reason = f"no other graph is known to fall to any {search.every}"
    why = shortfall(int(sizes.sum()), budget, reason)
    fallen = sizes.cpu().nonzero().squeeze(1)
    return Verdicts(
        perturbation=_joined(graphs.edges, pairs, why),
        fallen=fallen,
        sizes=sizes.cpu()[fallen],
        undecided=undecided.cpu().nonzero().squeeze(1),
        tried=tried,
        basis="proven",
        every=search.every,
        notes=(*_too_large(graphs.sizes[targets[asked]]), *many_sets(too_many, "graph")),
    )


def _question(graphs: GraphList, owner: int, logits: Tensor, double: Any) -> FlipQuestion:
    """Return what is asked of a graph on its own; its only row of logits is the target.

    Args:
        graphs: of the set.
        owner: the graph.
        logits: float [c], of the graph beside the others.
        double: the model in float64.

    Raises:
        ModelError: its logits are others on its own.
    """
    target = torch.zeros(1, dtype=torch.int64, device=graphs.x.device)
    copies = graphs.copies(target + owner)
    model: Any = copies.model
    graph = Data(x=copies.x, edge_index=copies.edge_index, num_nodes=copies.x.shape[0])
    with torch.no_grad():
        alone = model(graph.x, graph.edge_index)[0]
    if bool(((alone - logits).abs() > ALIKE * logits.abs().max()).any()):
        raise ModelError(
            f"model {model.name}: its answer for a graph depends on the other graphs that it is "
            f"given with it, so that nothing can be proven of one; attack it instead, as with "
            f"--grb-suite=graphs"
        )
    nodes = torch.arange(*graphs.starts[owner : owner + 2].tolist(), device=graphs.x.device)
    known = exact_trials_of(graph, model, target)
    return FlipQuestion(
        x=graph.x,
        edges=copies.edges,
        targets=target,
        labels=copies.labels,
        budgets=graphs.budgets[owner : owner + 1],
        model=model,
        double=double.on_graphs(copies.batch, nodes),
        answers=lambda _: known,
        likely=copies.edges.ends(copies.edges.codes),
        tell=untold,
        together=TOGETHER,
    )


def _done_before(sizes: Tensor) -> list[float]:
    """Return the share of all pairs of nodes that lie in the graphs before each, float [t].

    Args:
        sizes: int64 [t], nodes; 0 for graphs that are not asked.
    """
    pairs = sizes.double().square() * (sizes <= MOST_WHOLE)
    shares: list[float] = ((pairs.cumsum(0) - pairs) / pairs.sum().clamp(min=1.0)).tolist()
    return shares


def _joined(edges: EdgeSet, pairs: list[Tensor], why: tuple[str, ...]) -> Perturbation:
    if not pairs:
        return Perturbation(notes=why)
    return edges.perturbation(edges.encode(torch.cat(pairs, dim=1)), why)


def _too_large(sizes: Tensor) -> tuple[str, ...]:
    large = int((sizes > MOST_WHOLE).sum())
    if not large:
        return ()
    return (f"{count(large, 'graph')} of more than {MOST_WHOLE} nodes not tried, undecided",)
