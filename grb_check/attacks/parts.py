"""What is done for each part of a threat, put together in one perturbation and taken from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from grb_check.attacks.threat import Perturbation, Threat, chosen, joined


def joined_parts(
    parts: Sequence[Perturbation], num_nodes: int, notes: tuple[str, ...] = ()
) -> Perturbation:
    """Return what is done for each part, in their order, as one perturbation.

    Args:
        parts: of the clean graph each; a node whose features change is changed by one.
        num_nodes: N, of the clean graph.
        notes: of the whole.
    """
    sizes = [part.injected_x.shape[0] for part in parts]
    links = []
    for before, part in zip(torch.tensor([0, *sizes]).cumsum(0), parts, strict=False):
        first, second = part.injected_edges
        links.append(torch.stack([first + before, second + before * (second >= num_nodes)]))
    return replace(
        joined(parts, notes),
        injected_x=_rows([part.injected_x for part in parts]),
        injected_edges=torch.cat(links, dim=1),
        injected_graphs=torch.arange(len(parts)).repeat_interleave(torch.tensor(sizes)),
        modified_nodes=torch.cat([part.modified_nodes for part in parts]),
        modified_x=_rows([part.modified_x for part in parts]),
    )


def _rows(of_parts: Sequence[Tensor]) -> Tensor:
    """Return all rows, float [n, d]; [0, 0] if there are none, as in a new perturbation."""
    filled = [rows for rows in of_parts if rows.shape[0]]
    return torch.cat(filled) if filled else Perturbation().injected_x


def part_of(perturbation: Perturbation, threat: Threat, part: int, num_nodes: int) -> Perturbation:
    """Return what is done for the part with this index.

    Args:
        perturbation: of all parts; injected nodes have edges within one part alone, and features
            change of targets, each of which is in one part.
        threat: with the parts.
        part: the index.
        num_nodes: N, of the clean graph.
    """
    injected = perturbation.injected_graphs == part
    number = injected.cumsum(0) - 1  # of each injected node among those of this part
    linked = injected[perturbation.injected_edges[0]]
    first, second = perturbation.injected_edges[:, linked]
    new_ids = torch.cat([torch.arange(num_nodes), num_nodes + number])
    modified = torch.isin(perturbation.modified_nodes, threat.parts[part].targets.cpu())
    flips = perturbation.of_target(part)
    of_links = chosen(perturbation.added_types[perturbation.added_edges.shape[1] :], linked)
    return replace(
        flips,
        injected_x=_rows([perturbation.injected_x[injected]]),
        injected_edges=torch.stack([number[first], new_ids[second]]),
        modified_nodes=perturbation.modified_nodes[modified],
        modified_x=_rows([perturbation.modified_x[modified]]),
        added_types=torch.cat([flips.added_types, of_links]),
    )
