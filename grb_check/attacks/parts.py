"""What is done for each part of a threat, put together in one perturbation and taken from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from grb_check.attacks.threat import Perturbation, joined


def joined_parts(
    parts: Sequence[Perturbation], num_nodes: int, notes: tuple[str, ...] = ()
) -> Perturbation:
    """Return what is done for each part, in their order, as one perturbation.

    Args:
        parts: of the clean graph each: flips, or injected nodes.
        num_nodes: N, of the clean graph.
        notes: of the whole.
    """
    flips = joined(parts, notes)
    sizes = [part.injected_x.shape[0] for part in parts]
    if not any(sizes):
        return flips
    links = []
    for before, part in zip(torch.tensor([0, *sizes]).cumsum(0), parts, strict=False):
        first, second = part.injected_edges
        links.append(torch.stack([first + before, second + before * (second >= num_nodes)]))
    return replace(
        flips,
        injected_x=torch.cat([part.injected_x for part in parts if part.injected_x.numel()]),
        injected_edges=torch.cat(links, dim=1),
        injected_graphs=torch.arange(len(parts)).repeat_interleave(torch.tensor(sizes)),
    )


def part_of(perturbation: Perturbation, part: int, num_nodes: int) -> Perturbation:
    """Return what is done for the part with this index.

    Args:
        perturbation: of all parts, whose injected nodes have edges within one part alone.
        part: the index.
        num_nodes: N, of the clean graph.
    """
    flips = perturbation.of_target(part)
    selected = perturbation.injected_graphs == part
    if not selected.any():
        return flips
    number = selected.cumsum(0) - 1  # of each injected node among those of this part
    first, second = perturbation.injected_edges[:, selected[perturbation.injected_edges[0]]]
    among_new = torch.cat([torch.arange(num_nodes), num_nodes + number])
    return replace(
        flips,
        injected_x=perturbation.injected_x[selected],
        injected_edges=torch.stack([number[first], among_new[second]]),
    )
