"""Attacks on all graphs of a set at once, each within its own budget.

What an attack does to one graph stands in its own file. Injection (FGSM, PGD, TDGIA) does the same
to many graphs; only features are searched for in another way. Of the attacks on edges PR-BCD,
GR-BCD and PGD have a search of their own for sets: each graph has its own block of pairs, its own
projection and its own rounding, because one forward pass shows how each of many small graphs
changes; a budget of one flip is spent on the strongest of many that are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.candidate_flips import Search, row_objective, search_of
from grb_check.attacks.graph_sets.graph_list import graph_list, new_key, no_flips, uniform
from grb_check.attacks.graph_sets.greedy_flips import FlippedGraphs, greedy_search
from grb_check.attacks.graph_sets.injected_graphs import place_in_graphs
from grb_check.attacks.graph_sets.proofs import verdicts_of_graphs
from grb_check.attacks.graph_sets.relaxed_flips import RelaxedRows, Widen, relaxed_search, without
from grb_check.attacks.injection.fgsm import InjectionFgsm
from grb_check.attacks.injection.pgd import InjectionPgd
from grb_check.attacks.injection.tdgia import InjectionTdgia
from grb_check.attacks.modification.any_flip import ModificationAnyFlip
from grb_check.attacks.modification.any_removals import ModificationAnyRemovals
from grb_check.attacks.modification.grbcd import ModificationGrbcd
from grb_check.attacks.modification.pgd_topology import ModificationPgdTopology
from grb_check.attacks.modification.prbcd import ModificationPrbcd
from grb_check.attacks.modification.shared.proofs import ExactSearch
from grb_check.attacks.modification.shared.removable import shortfall
from grb_check.attacks.protocol import Attack, DifferentiableModel
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.attacks.verdicts import ProvingAttack, Tell, Verdicts, untold

# Of PR-BCD, for each graph:
LEAST_BLOCK: Final = 32  # pairs in a block at least ...
BUDGETS: Final = 4  # ... and that many for each flip of the graph's budget
PROMISING: Final = 4  # a block is drawn from that many times as many pairs
# Of PGD, for each graph:
REACH: Final = 8  # pairs of weight 0 considered in a step, for each flip of the budget
LEAST_REACH: Final = 32  # at least that many
RENEWED: Final = 10  # iterations after which these pairs are chosen again


def perturb(
    attack: Attack,
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    generator: torch.Generator,
) -> Perturbation:
    """Return the perturbation of an attack; arguments and errors are those of `Attack.perturb`.

    A built-in attack that has a search for sets of graphs takes that, if the threat is to graphs;
    so does a subclass that keeps its `perturb`.
    """
    owner = next((kind for kind in type(attack).__mro__ if "perturb" in vars(kind)), type(attack))
    of_graphs = _OF_GRAPHS.get(owner)
    if of_graphs is None or threat.batch is None:
        return attack.perturb(graph, threat, model, generator)
    return of_graphs(attack, graph, threat, model, generator)


def verdicts(
    attack: ProvingAttack, graph: Data, threat: Threat, model: Any, tell: Tell = untold
) -> Verdicts:
    """Return what an attack that tries everything knows of each target, be it a node or a graph.

    Arguments are those of `ProvingAttack.verdicts`.

    Raises:
        ModelError: what a change reaches is not known.
    """
    if threat.batch is not None and isinstance(
        attack, (ModificationAnyFlip, ModificationAnyRemovals)
    ):
        return verdicts_of_graphs(attack, graph, threat, model, tell)
    return attack.verdicts(graph, threat, model, tell)


def _proven(
    attack: ExactSearch,
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    _generator: torch.Generator,
) -> Perturbation:
    return verdicts_of_graphs(attack, graph, threat, model).perturbation


def _injection(
    attack: InjectionFgsm | InjectionPgd | InjectionTdgia,
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    generator: torch.Generator,
) -> Perturbation:
    place = place_in_graphs(graph, threat, model)
    return attack.perturb(graph, threat, model, generator, place)


def _prbcd(attack: ModificationPrbcd, search: Search, generator: torch.Generator) -> FlippedGraphs:
    return relaxed_search(
        search,
        _renewed(search, attack.block_size, new_key(generator)),
        iterations=attack.iterations,
        every=attack.renew_every,
        step_size=attack.step_size,
        samples=attack.samples,
        key=new_key(generator),
    )


def _renewed(search: Search, block_size: int, key: int) -> Widen:
    """Return new pairs for each graph's block, drawn from those of largest gain of either kind.

    A block has `BUDGETS` pairs for each flip of its graph's budget, at least `LEAST_BLOCK` and at
    most `block_size`, but always twice the budget.
    """

    def widen(owners: Tensor, relaxed: RelaxedRows) -> Tensor:
        budgets = search.graphs.budgets[owners]
        flips = relaxed.largest(budgets, int(budgets.max()))
        sizes = (BUDGETS * budgets).clamp(min=LEAST_BLOCK, max=block_size).maximum(2 * budgets)
        room = (sizes - (relaxed.codes >= 0).sum(1)).clamp(min=0)
        ranked = search.source(owners, flips, PROMISING * int(sizes.max()) // 2).in_turn()
        position = torch.arange(ranked.shape[1], device=ranked.device)
        ranked = ranked.masked_fill(position >= PROMISING * room[:, None], -1)
        ranked = without(ranked, relaxed.codes)
        draw = uniform(key, owners[:, None], ranked, (relaxed.codes + 2).sum(1, keepdim=True))
        order = draw.masked_fill(ranked < 0, 2.0).argsort(dim=1, stable=True)
        chosen = ranked.gather(1, order)[:, : int(sizes.max())]
        return chosen.masked_fill(position[: chosen.shape[1]] >= room[:, None], -1)

    return widen


def _grbcd(attack: ModificationGrbcd, search: Search, generator: torch.Generator) -> FlippedGraphs:
    return greedy_search(
        search,
        generator,
        steps=attack.steps,
        exchanges=attack.exchanges,
        exchange_share=attack.exchange_share,
    )


def _pgd_topology(
    attack: ModificationPgdTopology, search: Search, generator: torch.Generator
) -> FlippedGraphs:
    return relaxed_search(
        search,
        _best_pairs(search),
        iterations=attack.iterations,
        every=RENEWED,
        step_size=attack.step_size,
        samples=attack.samples,
        key=new_key(generator),
    )


def _best_pairs(search: Search) -> Widen:
    """Return the pairs of each graph with the largest gains at its weights, half of them removals.

    Other pairs of weight 0 would stay at 0, so that they need no gradient.
    """

    def widen(owners: Tensor, relaxed: RelaxedRows) -> Tensor:
        reach = (REACH * search.graphs.budgets[owners]).clamp(min=LEAST_REACH)
        count = int(reach.max()) // 2
        ranked = search.source(owners, relaxed.codes, count, relaxed.weights).in_turn()
        position = torch.arange(ranked.shape[1], device=ranked.device)
        return ranked.masked_fill(position >= reach[:, None], -1)

    return widen


def _flips(
    find: Callable[[Any, Search, torch.Generator], FlippedGraphs],
    settings: Any,
    graph: Data,
    threat: Threat,
    model: DifferentiableModel,
    generator: torch.Generator,
) -> Perturbation:
    """Return the flips that a search finds in each graph, with a note on unused budget.

    Args:
        find: the search, called only if some graph can be attacked.
        settings: the attack.
        graph: graphs side by side.
        threat: with `batch` and `edge_budgets`.
    """
    graphs = graph_list(graph, threat, model)
    owners = graphs.attackable()
    flips = no_flips(0, 0, owners)
    if owners.numel():
        search = search_of(
            graphs,
            row_objective(settings.objective),
            isolate=settings.isolate,
            block_size=settings.block_size,
            generator=generator,
        )
        result = find(settings, search, generator)
        owners, flips = result.owners, result.flips
    given = flips >= 0
    flip_owners = owners[given.nonzero()[:, 0]]
    codes, sizes = flips[given], graphs.sizes[flip_owners]
    pairs = torch.stack([codes // sizes, codes % sizes]) + graphs.starts[flip_owners]
    reason = "no other flip makes or keeps a graph misclassified"
    notes = shortfall(int(given.sum()), int(graphs.budgets.sum()), reason)
    if settings.polish:
        notes = (*notes, "not polished, because the targets are graphs")
    return graphs.edges.perturbation(graphs.edges.encode(pairs), notes)


# By the class whose settings they take.
_OF_GRAPHS: Final[dict[type, Callable[..., Perturbation]]] = {
    InjectionFgsm: _injection,
    InjectionPgd: _injection,
    InjectionTdgia: _injection,
    ModificationAnyFlip: _proven,
    ModificationAnyRemovals: _proven,
    ModificationPrbcd: partial(_flips, _prbcd),
    ModificationGrbcd: partial(_flips, _grbcd),
    ModificationPgdTopology: partial(_flips, _pgd_topology),
}
