"""The smallest part of a perturbation under which a victim still breaks its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import torch
from torch import Tensor

from grb_check.attacks.threat import Perturbation
from grb_check.cases.metrics import relative_drop
from grb_check.errors import ModelError
from grb_check.evaluation.before_and_after import Scene
from grb_check.failures.counter_example_text import CounterExample, Flip, InjectedNode
from grb_check.failures.effects import effects
from grb_check.failures.evidence import Limits
from grb_check.failures.shrinking import Patience, shrink

MOST_TESTS: Final = 3000
MOST_SECONDS: Final = 20.0

Kind: TypeAlias = Literal["added", "removed", "node", "features"]
Unit: TypeAlias = tuple[Kind, int]


@dataclass(frozen=True, kw_only=True)
class Smallest:
    """What is left of a perturbation.

    Attributes:
        seed: of the repeat.
        perturbation: the small one.
        units_before: edge changes, links of injected nodes and changed rows of the whole one ...
        units_after: ... and of the small one.
        clean: accuracy before.
        attacked: accuracy after the small one.
        drop: relative.
        limit: that the drop breaks.
        minimal: whether it is known that nothing of it can be left out alone.
        tests: forward passes that it took.
        flipped: target, true class, class before, class after, those that were right first.
    """

    seed: int
    perturbation: Perturbation
    units_before: int
    units_after: int
    clean: float
    attacked: float
    drop: float
    limit: float
    minimal: bool
    tests: int
    flipped: tuple[tuple[int, int, int, int], ...]


def smallest(
    scene: Scene,
    perturbation: Perturbation,
    limits: Limits,
    patience: Patience | None = None,
) -> Smallest | None:
    """Leave out what is not needed to break the limits.

    Edge changes, changed rows and injected nodes with their links come first, then single links of
    the injected nodes that are left; a node without links goes with the last of them. See
    `shrinking.shrink` for the search and `effects.effects` for the order. Every candidate, and so
    the result, was put before the victim.

    Args:
        scene: the victim and the clean graph.
        perturbation: that the victim faced in this repeat.
        limits: on drop and attacked accuracy; that on clean accuracy says nothing here.
        patience: `MOST_TESTS` and `MOST_SECONDS` where none is given.

    Returns:
        None where the whole perturbation breaks no limit in this repeat.

    Raises:
        ModelError: the victim fails on one of the graphs, or answers otherwise at the second time.
    """
    clean = scene.accuracy(scene.before)
    limits = replace(limits, clean=None)
    limit = limits.as_drop(clean)
    patience = patience or Patience(MOST_TESTS, MOST_SECONDS)

    def breaks(part: Perturbation) -> bool:
        return bool(limits.broken(clean, scene.accuracy(scene.after(part))))

    if limit is None or not breaks(perturbation):
        return None
    small, minimal = _settled(scene, perturbation, breaks, patience)
    after = scene.after(small)
    attacked = scene.accuracy(after)
    if not limits.broken(clean, attacked):
        raise ModelError(
            f"model {scene.ready.victim.name}: asked again about the same graph it answers "
            f"otherwise, so that it is not certain what can be left out; on a GPU, see "
            f"torch.use_deterministic_algorithms"
        )
    return Smallest(
        seed=scene.seed,
        perturbation=small,
        units_before=count_units(perturbation, scene.graph.num_nodes),
        units_after=count_units(small, scene.graph.num_nodes),
        clean=clean,
        attacked=attacked,
        drop=relative_drop(clean, attacked),
        limit=limit,
        minimal=minimal,
        tests=patience.made,
        flipped=_flipped(scene, after),
    )


def hardest(figures: Sequence[tuple[float, float]], limits: Limits) -> int:
    """Which of the pairs of clean and attacked accuracy breaks the limits by most; one or more."""

    def excess(clean: float, attacked: float) -> float:
        limit = limits.as_drop(clean)
        return relative_drop(clean, attacked) - (0.0 if limit is None else limit)

    return max(range(len(figures)), key=lambda place: excess(*figures[place]))


def count_units(perturbation: Perturbation, num_nodes: int) -> int:
    """Edge changes, links, changed rows, and injected nodes that have no link.

    Args:
        perturbation: of a graph ...
        num_nodes: ... with so many nodes.
    """
    links = perturbation.injected_edges.shape[1]
    alone = int((~_linked(perturbation, num_nodes)).sum())
    edges = perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]
    return edges + links + alone + perturbation.modified_nodes.numel()


def counter_example(found: Smallest, num_nodes: int) -> CounterExample:
    """Return what reports show.

    Nodes are numbered as in the attacked graph: injected ones follow the `num_nodes` of the clean
    one. A link between two injected nodes is listed at the first.
    """
    part = found.perturbation
    links = part.injected_edges.T.tolist()
    return CounterExample(
        repeat=found.seed,
        units_before=found.units_before,
        units_after=found.units_after,
        clean=found.clean,
        attacked=found.attacked,
        drop=found.drop,
        limit=found.limit,
        minimal=found.minimal,
        tests=found.tests,
        added_edges=_pairs(part.added_edges),
        removed_edges=_pairs(part.removed_edges),
        injected=tuple(
            InjectedNode(
                node=num_nodes + node,
                links=tuple(sorted(end for new, end in links if new == node)),
            )
            for node in range(part.injected_x.shape[0])
        ),
        modified_nodes=tuple(part.modified_nodes.tolist()),
        flipped=tuple(
            Flip(target=target, label=label, before=before, after=after)
            for target, label, before, after in found.flipped
        ),
    )


def _pairs(edges: Tensor) -> tuple[tuple[int, int], ...]:
    """Edges [2, e] as pairs."""
    return tuple((first, second) for first, second in edges.T.tolist())


def _settled(
    scene: Scene,
    whole: Perturbation,
    breaks: Callable[[Perturbation], bool],
    patience: Patience,
) -> tuple[Perturbation, bool]:
    """Units, then links, and again while that takes a link: without it a node may be needless."""
    by_links: Perturbation | None = None  # of which no single link can go
    while True:
        part, minimal = _fewer_units(scene, whole, breaks, patience)
        if not minimal or (by_links is not None and _same_size(part, by_links)):
            return part, minimal
        by_links, minimal = _fewer_links(scene, part, breaks, patience)
        if not minimal or _same_size(by_links, part):
            return by_links, minimal
        whole = by_links


def _same_size(one: Perturbation, other: Perturbation) -> bool:
    pairs = zip(one.tensors(), other.tensors(), strict=True)
    return all(first.shape == second.shape for first, second in pairs)


def _fewer_units(
    scene: Scene,
    whole: Perturbation,
    breaks: Callable[[Perturbation], bool],
    patience: Patience,
) -> tuple[Perturbation, bool]:
    units = _ordered_units(scene, whole)
    found = shrink(units, lambda chosen: breaks(_of_units(scene, whole, chosen)), patience)
    return _of_units(scene, whole, found.units), found.minimal


def _fewer_links(
    scene: Scene,
    whole: Perturbation,
    breaks: Callable[[Perturbation], bool],
    patience: Patience,
) -> tuple[Perturbation, bool]:
    links = _descending(effects(scene, whole).links)
    if not links:
        return whole, True
    found = shrink(links, lambda chosen: breaks(_of_links(scene, whole, chosen)), patience)
    return _of_links(scene, whole, found.units), found.minimal


def _ordered_units(scene: Scene, perturbation: Perturbation) -> list[Unit]:
    """Those that do most first; an injected node does what its links do."""
    found = effects(scene, perturbation)
    new, other = perturbation.injected_edges
    nodes = torch.zeros(perturbation.injected_x.shape[0]).index_add(0, new, found.links)
    inner = other >= scene.graph.num_nodes
    nodes.index_add_(0, other[inner] - scene.graph.num_nodes, found.links[inner])
    parts: list[tuple[Kind, Tensor]] = [
        ("added", found.added),
        ("removed", found.removed),
        ("node", nodes),
        ("features", found.features),
    ]
    units: list[Unit] = [(kind, place) for kind, each in parts for place in range(each.numel())]
    order = _descending(torch.cat([each for _, each in parts]))
    return [units[place] for place in order]


def _descending(values: Tensor) -> list[int]:
    order: list[int] = values.argsort(descending=True, stable=True).tolist()
    return order


def _of_units(scene: Scene, whole: Perturbation, units: Sequence[Unit]) -> Perturbation:
    def places(kind: Kind) -> Tensor:
        return torch.tensor(sorted(place for each, place in units if each == kind)).long()

    rows = places("features")
    part = replace(
        whole,
        added_edges=whole.added_edges[:, places("added")],
        removed_edges=whole.removed_edges[:, places("removed")],
        modified_nodes=whole.modified_nodes[rows],
        modified_x=whole.modified_x[rows],
    )
    return _with_nodes(part, places("node"), scene.graph.num_nodes)


def _of_links(scene: Scene, whole: Perturbation, links: Sequence[int]) -> Perturbation:
    """With these links; nodes that have lost all of theirs go with them."""
    chosen = torch.tensor(sorted(links)).long()
    part = replace(whole, injected_edges=whole.injected_edges[:, chosen])
    stay = _linked(part, scene.graph.num_nodes) | ~_linked(whole, scene.graph.num_nodes)
    return _with_nodes(part, stay.nonzero().flatten(), scene.graph.num_nodes)


def _with_nodes(whole: Perturbation, kept: Tensor, num_nodes: int) -> Perturbation:
    """With the injected nodes int64 [k], ascending, numbered anew, and links among what stays."""
    count = whole.injected_x.shape[0]
    if kept.numel() == count:
        return whole
    number = torch.full((count,), -1)
    number[kept] = torch.arange(kept.numel())
    new, other = whole.injected_edges
    inner = other >= num_nodes
    place = (other - num_nodes).clamp(min=0)
    other = torch.where(inner, number[place] + num_nodes, other)
    stays = (number[new] >= 0) & (~inner | (number[place] >= 0))
    links = torch.stack([number[new], other])[:, stays]
    return replace(whole, injected_x=whole.injected_x[kept], injected_edges=links)


def _linked(perturbation: Perturbation, num_nodes: int) -> Tensor:
    """bool [n], the injected nodes that have a link."""
    linked = torch.zeros(perturbation.injected_x.shape[0], dtype=torch.bool)
    new, other = perturbation.injected_edges
    linked[new] = True
    linked[other[other >= num_nodes] - num_nodes] = True
    return linked


def _flipped(scene: Scene, after: Tensor) -> tuple[tuple[int, int, int, int], ...]:
    columns = (scene.targets, scene.classes, scene.before, after)
    rows = list(zip(*(each.tolist() for each in columns), strict=True))
    changed = [(t, y, old, new) for t, y, old, new in rows if old != new]
    return tuple(sorted(changed, key=lambda row: (row[2] != row[1], row[0])))
