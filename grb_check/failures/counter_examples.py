"""The smallest part of a perturbation under which a victim still breaks its limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import torch
from torch import Tensor

from grb_check.attacks.names import split_gang
from grb_check.attacks.scenarios import POISONING
from grb_check.attacks.threat import Perturbation
from grb_check.cases.counter_example import CounterExample, Flip, InjectedNode, summary
from grb_check.cases.metrics import relative_drop
from grb_check.datasets import Source
from grb_check.errors import ModelError, UsageError
from grb_check.evaluation.evaluator import Evaluator
from grb_check.failures.effects import effects
from grb_check.failures.evidence import CaseLimits, Evidence, write
from grb_check.failures.replay import Replay, replaying
from grb_check.failures.shrinking import shrink
from grb_check.victims.subject import Subject

MOST_TESTS: Final = 3000
MOST_SECONDS: Final = 20.0
NO_SINGLE_REPEAT: Final = "smallest counter-example: none, because no repeat alone breaks a limit"

Kind: TypeAlias = Literal["added", "removed", "link", "node", "features"]
Unit: TypeAlias = tuple[Kind, int]


def smallest(
    replay: Replay,
    perturbation: Perturbation,
    limits: CaseLimits,
    *,
    most_tests: int = MOST_TESTS,
    most_seconds: float = MOST_SECONDS,
) -> tuple[CounterExample, Perturbation] | None:
    """Leave out every part of a perturbation that is not needed to break the limits.

    The parts are edge changes, modified nodes and single links; an injected node is left out with
    the last of its links. See `shrinking.shrink` for the search and `effects` for its order. Every
    candidate, and so the result, is measured on the victim.

    Args:
        replay: the victim and the clean graph.
        perturbation: applied to the victim in this repeat.
        limits: on drop and attacked accuracy; a limit on clean accuracy is ignored.
        most_tests: number of trials after which the search stops.
        most_seconds: time after which no trial begins.

    Returns:
        The counter-example and its perturbation; None if the whole perturbation breaks no limit in
        this repeat. Injected nodes are numbered after the `num_nodes` of the clean graph, and a
        link between two of them is listed at the first.

    Raises:
        ModelError: the victim fails on one of the graphs, or predicts differently when it is called
            on the same graph again.
    """
    clean = replay.accuracy(replay.before)
    limits = replace(limits, clean=None)
    limit = limits.as_drop(clean)

    def breaks(part: Perturbation) -> bool:
        return bool(limits.broken(clean, replay.accuracy(replay.after(part))))

    if limit is None or not breaks(perturbation):
        return None
    num_nodes = replay.graph.num_nodes
    units = _units(replay, perturbation)
    result = shrink(
        units,
        lambda some: breaks(_part(perturbation, some, num_nodes)),
        most_tests=most_tests,
        most_seconds=most_seconds,
    )
    small = _part(perturbation, result.units, num_nodes)
    after = replay.after(small)
    attacked = replay.accuracy(after)
    if not limits.broken(clean, attacked):
        raise ModelError(
            f"model {replay.model.victim.name}: called again on the same graph it predicts "
            f"differently, so that nothing can be left out with certainty; make it deterministic "
            f"(on a GPU, see torch.use_deterministic_algorithms)"
        )
    about = CounterExample(
        repeat=replay.seed,
        units_before=len(units),
        units_after=len(result.units),
        clean=clean,
        attacked=attacked,
        drop=relative_drop(clean, attacked),
        limit=limit,
        minimal=result.minimal,
        tests=result.tests,
        added_edges=_pairs(small.added_edges),
        added_types=tuple(small.added_types[: small.added_edges.shape[1]].tolist()),
        removed_edges=_pairs(small.removed_edges),
        injected=_injected(small, num_nodes),
        modified_nodes=tuple(small.modified_nodes.tolist()),
        flipped=_flipped(replay, after),
    )
    return about, small


def _injected(part: Perturbation, num_nodes: int) -> tuple[InjectedNode, ...]:
    """Injected nodes with their links; the first is number `num_nodes`."""
    kinds = part.types_of_new()[1].tolist()
    links = sorted(zip(*part.injected_edges.tolist(), kinds, strict=True))
    result = []
    for node in range(part.injected_x.shape[0]):
        own = [(end, kind) for new, end, kind in links if new == node]
        types = tuple(kind for _, kind in own) if part.added_types.numel() else ()
        ends = tuple(end for end, _ in own)
        result.append(InjectedNode(node=num_nodes + node, links=ends, types=types))
    return tuple(result)


def save_smallest(
    path: Path, evidence: Evidence, evaluator: Evaluator, subject: Subject, source: Source
) -> CounterExample | None:
    """Find the smallest counter-example of an evidence and write it to a file beside it.

    The perturbation of the repeat that breaks the limits by most is shrunk.

    Args:
        path: of the evidence, see `small_path`.
        evidence: the evidence.
        evaluator: has or trains the victim.
        subject: the model.
        source: of the dataset.

    Returns:
        The counter-example; None if no repeat alone breaks the limits.

    Raises:
        UsageError: each target, or gang, was attacked on its own, or the training was poisoned.
        ModelError: the victim fails on one of the graphs.
        OSError: the file cannot be written.
    """
    position = hardest(
        [(repeat.clean, repeat.attacked) for repeat in evidence.repeats], evidence.limits
    )
    repeat = evidence.repeats[position]
    if evidence.case.scenario == POISONING:
        raise UsageError(
            f"{evidence.case.id} poisons the training, and each smaller part would need one "
            f"of its own: it is not reduced; replay measures it as it is"
        )
    gang = split_gang(evidence.case.attack)[1]
    if repeat.perturbation.flip_targets.numel() or gang is not None:
        raise UsageError(
            f"in {evidence.case.id} each target, or gang of them, is attacked on its own, with few "
            f"changes, which are not reduced further; replay measures them as they are"
        )
    with replaying(evaluator, subject, source, evidence.case, repeat.seed) as replay:
        small = smallest(replay, repeat.perturbation, evidence.limits)
        weights = replay.model.weights
    if small is None:
        return None
    about, perturbation = small
    part = replace(
        repeat,
        clean=about.clean,
        attacked=about.attacked,
        weights=weights,
        perturbation=perturbation,
    )
    write(
        small_path(path),
        replace(
            evidence,
            limits=replace(evidence.limits, clean=None),
            message=summary(about),
            repeats=(part,),
        ),
    )
    return about


def small_path(path: Path) -> Path:
    """The file of the smallest counter-example beside the file of an evidence."""
    return path.with_name(f"{path.stem}-smallest.npz")


def hardest(figures: Sequence[tuple[float, float]], limits: CaseLimits) -> int:
    """Index of the pair of clean and attacked accuracy that breaks the limits by most."""

    def excess(clean: float, attacked: float) -> float:
        limit = limits.as_drop(clean)
        return relative_drop(clean, attacked) - (0.0 if limit is None else limit)

    return max(range(len(figures)), key=lambda index: excess(*figures[index]))


def _pairs(edges: Tensor) -> tuple[tuple[int, int], ...]:
    """Edges [2, e] as pairs."""
    return tuple((first, second) for first, second in edges.T.tolist())


def _units(replay: Replay, whole: Perturbation) -> list[Unit]:
    """Parts that can be left out, by descending effect."""
    result = effects(replay, whole)
    alone = (~_linked(whole, replay.graph.num_nodes)).nonzero().flatten()
    kinds: list[tuple[Kind, Tensor, Tensor]] = [
        ("added", torch.arange(result.added.numel()), result.added),
        ("removed", torch.arange(result.removed.numel()), result.removed),
        ("link", torch.arange(result.links.numel()), result.links),
        ("features", torch.arange(result.features.numel()), result.features),
        ("node", alone, torch.zeros(alone.numel())),
    ]
    units: list[Unit] = [
        (kind, position) for kind, positions, _ in kinds for position in positions.tolist()
    ]
    order = torch.cat([scores for _, _, scores in kinds]).argsort(descending=True, stable=True)
    return [units[position] for position in order.tolist()]


def _part(whole: Perturbation, units: Sequence[Unit], num_nodes: int) -> Perturbation:
    """The perturbation with these units only; a node that loses its last link is left out."""

    def places(kind: Kind) -> Tensor:
        return torch.tensor(
            sorted(position for unit_kind, position in units if unit_kind == kind)
        ).long()

    rows = places("features")
    of_added, of_links = whole.types_of_new()
    part = replace(
        whole,
        added_types=torch.cat([of_added[places("added")], of_links[places("link")]])
        if whole.added_types.numel()
        else whole.added_types,
        added_edges=whole.added_edges[:, places("added")],
        removed_edges=whole.removed_edges[:, places("removed")],
        injected_edges=whole.injected_edges[:, places("link")],
        modified_nodes=whole.modified_nodes[rows],
        modified_x=whole.modified_x[rows],
    )
    stay = _linked(part, num_nodes)
    stay[places("node")] = True
    return _with_nodes(part, stay.nonzero().flatten(), num_nodes)


def _with_nodes(whole: Perturbation, nodes: Tensor, num_nodes: int) -> Perturbation:
    """The perturbation with these injected nodes, int64 [k] ascending, which have all its links."""
    number = torch.full((whole.injected_x.shape[0],), -1)
    number[nodes] = torch.arange(nodes.numel())
    new, other = whole.injected_edges.clone()
    inner = other >= num_nodes
    other[inner] = number[other[inner] - num_nodes] + num_nodes
    links = torch.stack([number[new], other])
    return replace(
        whole,
        injected_x=whole.injected_x[nodes],
        injected_edges=links,
        injected_graphs=whole.injected_graphs[nodes]
        if whole.injected_graphs.numel()
        else nodes[:0],
    )


def _linked(perturbation: Perturbation, num_nodes: int) -> Tensor:
    """Injected nodes that have a link, bool [n]."""
    linked = torch.zeros(perturbation.injected_x.shape[0], dtype=torch.bool)
    new, other = perturbation.injected_edges
    linked[new] = True
    linked[other[other >= num_nodes] - num_nodes] = True
    return linked


def _flipped(replay: Replay, after: Tensor) -> tuple[Flip, ...]:
    """Targets whose prediction changes, those that were right first."""
    ends = replay.graph.edge_index[0].cpu()
    batch: Tensor | None = replay.graph.get("batch")
    owners = ends if batch is None else batch.cpu()[ends]
    degrees = torch.bincount(owners, minlength=int(replay.targets.max()) + 1)[replay.targets]
    degrees = degrees if batch is None else degrees // 2
    columns = (replay.targets, replay.classes, replay.before, after, degrees)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    flips = [
        Flip(target=target, label=label, before=before, after=after, degree=degree)
        for target, label, before, after, degree in rows
        if before != after
    ]
    return tuple(sorted(flips, key=lambda flip: (flip.before != flip.label, flip.target)))
