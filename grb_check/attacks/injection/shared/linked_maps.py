"""A model as a map of injected features and of weights of all their links to targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.names import NOT_EXCHANGED
from grb_check.attacks.protocol import DifferentiableModel, members
from grb_check.attacks.threat import Threat
from grb_check.errors import count

MOST_PAIRS: Final = 4_000_000  # of injected nodes and targets: 16 MB a matrix

# From features [n, d] and weights of links [n, t] to the targets' logits [t, c].
LogitsOfLinks: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def maps_of_links(
    graph: Data, threat: Threat, model: DifferentiableModel, most_pairs: int = MOST_PAIRS
) -> tuple[LogitsOfLinks, ...] | str:
    """Return the map of each member of a model, or why there is none.

    Args:
        graph: clean.
        threat: gives the number of injected nodes, and the targets.
        model: to call.
        most_pairs: of injected nodes and targets.
    """
    pairs = threat.injected_nodes * threat.targets.numel()
    if pairs > most_pairs:
        return (
            f"{NOT_EXCHANGED}: {count(pairs, 'pair')} of injected nodes and targets, "
            f"most_pairs is {most_pairs}"
        )
    result = [
        member.with_links(
            graph.x, graph.edge_index, threat.injected_nodes, threat.targets, threat.targets
        )
        for member in members(model)
    ]
    every = tuple(logits_of for logits_of in result if logits_of is not None)
    if len(every) < len(result):
        return (
            f"{NOT_EXCHANGED}: the model takes no weights of edges, ignores them, or "
            "has too many pairs for them"
        )
    return every
