"""A model as a map of injected features and of weights of all links that they may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.links import candidates_of
from grb_check.attacks.names import NOT_EXCHANGED
from grb_check.attacks.protocol import DifferentiableModel, members
from grb_check.attacks.threat import Threat
from grb_check.errors import count

MOST_PAIRS: Final = 4_000_000  # of injected nodes and nodes to link to: 16 MB a matrix

# From features [n, d] and weights of links [n, m] to the targets' logits [t, c].
LogitsOfLinks: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def maps_of_links(
    graph: Data, threat: Threat, model: DifferentiableModel, most_pairs: int = MOST_PAIRS
) -> tuple[LogitsOfLinks, ...] | str:
    """Return the map of each member of a model, or why there is none.

    Args:
        graph: clean.
        threat: gives the number of injected nodes, the targets, and what they may be linked to, see
            `links.candidates_of`.
        model: to call.
        most_pairs: of injected nodes and nodes that they may be linked to.
    """
    candidates = candidates_of(threat)
    pairs = threat.injected_nodes * candidates.numel()
    if pairs > most_pairs:
        return (
            f"{NOT_EXCHANGED}: {count(pairs, 'pair')} of injected nodes and nodes to link to, "
            f"most_pairs is {most_pairs}"
        )
    result = [
        member.with_links(
            graph.x, graph.edge_index, threat.injected_nodes, candidates, threat.targets
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


def among_targets(
    linked: Sequence[LogitsOfLinks] | str, threat: Threat
) -> Sequence[LogitsOfLinks] | str:
    """Return maps of links to targets alone, from those of links to all of `candidates_of`."""
    others = candidates_of(threat).numel() - threat.targets.numel()
    if isinstance(linked, str) or not others:
        return linked

    def without_others(logits_of: LogitsOfLinks) -> LogitsOfLinks:
        return lambda features, weights: logits_of(features, F.pad(weights, (0, others)))

    return tuple(map(without_others, linked))
