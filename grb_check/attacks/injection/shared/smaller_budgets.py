"""Attackers who hold back: as many nodes and links as the model takes least well.

A budget is an upper bound. A model may damp, drop or distrust senders of high degree, or fall back
to the features when the graph's mean degree has moved: it is met with few links or few nodes.
(our choice; in none of the papers)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from torch import Tensor

from grb_check.attacks.injection.shared.blends import BLENDS, Blend, best_blend
from grb_check.attacks.injection.shared.injected_nodes import Injected, InjectionQuestion
from grb_check.attacks.injection.shared.links import links_per_node
from grb_check.attacks.names import HELD_BACK
from grb_check.attacks.threat import Threat
from grb_check.errors import count

SHARES: Final = (0.5, 0.25, 0.125)  # of the links of each node, or of the nodes
FEW: Final = tuple(Blend(share, scale) for share in (0.0, 0.4, 0.8) for scale in (1.0, 4.0, None))
STEPS: Final = (0.6, 0.8, 1.25, 1.6)  # from the best number of links on, or of nodes
ENOUGH: Final = 0.9  # of the links; of fewer `budget-unused` would be a finding


def held_back(whole: Injected, probabilities: Tensor) -> Injected | None:
    """Return the best blend with a part of the budget, which is all that its question has.

    Fewer links of each node are tried with a few blends, and fewer nodes; then other numbers near
    the best, with its blend alone; then all blends with the best.

    Args:
        whole: the best blend with the whole budget.
        probabilities: float [t, c] of the targets' classes on the clean graph.

    Returns:
        None if nothing is gained by holding back.
    """
    question, best = whole.question, _Part(whole, None)
    for threat in _smaller(question.threat):
        best = _stronger(best, replace(question, threat=threat), probabilities, FEW)
    if best.blend is None:
        return None
    for threat in _beside(question.threat, best.state.question.threat):
        best = _stronger(best, replace(question, threat=threat), probabilities, (best.blend,))
    return _stronger(best, best.state.question, probabilities, BLENDS).state


def notes_on(threat: Threat, used: Threat, links: int) -> tuple[str, ...]:
    """Return a note if a search held back.

    Args:
        threat: with the whole budget.
        used: with that which was searched.
        links: number that is left of it; nothing is said if few were dropped.
    """
    each, nodes = links_per_node(threat)[0], threat.injected_nodes
    whole = (used.injected_nodes, links_per_node(used)[0]) == (nodes, each)
    enough = links >= ENOUGH * nodes * threat.edges_per_injected_node
    if whole and (enough or links == nodes * each):
        return ()
    part = f"{used.injected_nodes} of {count(nodes, 'node')}, {links} of {nodes * each} links"
    return (f"{HELD_BACK}: {part}",)


class _Part(NamedTuple):
    """The strongest state with a part of the budget, and its blend; None for the whole."""

    state: Injected
    blend: Blend | None


def _stronger(
    best: _Part, question: InjectionQuestion, probabilities: Tensor, blends: Sequence[Blend]
) -> _Part:
    """The stronger of what is best so far and the best of these blends of a question."""
    state, blend = best_blend(question, probabilities, blends)
    return _Part(state, blend) if state.value > best.state.value else best


def _smaller(threat: Threat) -> Iterator[Threat]:
    links, nodes = links_per_node(threat)[0], threat.injected_nodes
    for fewer in dict.fromkeys(max(1, round(share * links)) for share in SHARES):
        if fewer < links:
            yield replace(threat, edges_per_injected_node=fewer)
    for fewer in dict.fromkeys(max(1, round(share * nodes)) for share in SHARES):
        if fewer < nodes:
            yield replace(threat, injected_nodes=fewer)


def _beside(threat: Threat, best: Threat) -> Iterator[Threat]:
    """Budgets with a few more or less of what the best so far has less of."""
    most, links = links_per_node(threat)[0], links_per_node(best)[0]
    if links < most:
        for other in dict.fromkeys(round(step * links) for step in STEPS):
            if 1 <= other <= most and other != links:
                yield replace(best, edges_per_injected_node=other)
        return
    for nodes in dict.fromkeys(round(step * best.injected_nodes) for step in STEPS):
        if 1 <= nodes <= threat.injected_nodes and nodes != best.injected_nodes:
            yield replace(best, injected_nodes=nodes)
