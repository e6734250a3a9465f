"""Links of injected nodes that move from lost targets to right ones, or are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from grb_check.attacks.injection.shared.injected_nodes import (
    Injected,
    InjectionQuestion,
    asked,
    placed,
)
from grb_check.attacks.injection.shared.weak_targets import label_groups

MOVED: Final = (1.0, 0.5, 0.25, 0.1)  # shares of the spare links


def moved_links(question: InjectionQuestion, state: Injected) -> Injected:
    """Return the state with links moved from lost targets to right ones, or without them.

    A lost target needs one link. The others are spare, and go to targets that are still right and
    have the label of those that the injected node is made for: the largest share of them (`MOVED`)
    that is a gain, else the smallest, because the ascent that follows may make it one. Where it is
    stronger, such a share is dropped: a model may damp senders of many links.
    """
    order = _spare(state)
    moved = _first_gain(question, state, order, lambda some: _relinked(question, state, some))
    dropped = _first_gain(question, state, order, lambda some: _without(state, some))
    return dropped if dropped.value > max(moved.value, state.value) else moved


def _first_gain(
    question: InjectionQuestion,
    state: Injected,
    order: Tensor,
    links_with: Callable[[Tensor], Tensor],
) -> Injected:
    """The state with the largest share of the spare links changed that is a gain."""
    changed = state
    for share in MOVED:
        links = links_with(order[: int(share * order.numel())])
        nodes, empty = placed(question, links)
        changed = asked(question, nodes, empty, state.features)
        if changed.value > state.value:
            break
    return changed


def _without(state: Injected, spare: Tensor) -> Tensor:
    """Return `injected_edges` without the links `spare` int64 [s], but for one of each node."""
    kept = torch.ones(state.links.shape[1], dtype=torch.bool)
    kept[spare] = False
    new, count = state.links[0], state.features.shape[0]
    unlinked = torch.bincount(new[kept], minlength=count) == 0
    first = new.new_full((count,), new.numel()).scatter_reduce(
        0, new, torch.arange(new.numel()), "amin"
    )
    kept[first[unlinked & (first < new.numel())]] = True
    return state.links[:, kept]


def _spare(state: Injected) -> Tensor:
    """Return the links int64 [s] that lost targets do not need, of the clearest ones first."""
    margins, ends = state.margins.cpu(), state.ends.cpu()
    order = margins[ends].argsort(descending=True, stable=True)
    order = order[margins[ends[order]] > 0]
    at = ends[order]
    by_target = at.argsort(stable=True)
    first = torch.ones_like(at, dtype=torch.bool)
    first[by_target[1:]] = at[by_target[1:]] != at[by_target[:-1]]
    return order[~first]


def _relinked(question: InjectionQuestion, state: Injected, spare: Tensor) -> Tensor:
    """Return `injected_edges` with the links `spare` int64 [s] at other targets."""
    labels, ends = question.labels.cpu(), state.ends.cpu().clone()
    right = (state.margins <= 0).cpu()
    groups = label_groups(state.logits.softmax(1).cpu(), labels)
    new = state.links[0]
    classes = F.one_hot(labels[ends], int(labels.max()) + 1)
    counts = torch.zeros((state.features.shape[0], classes.shape[1]), dtype=torch.int64)
    made_for = counts.index_add(0, new, classes).argmax(1)[new]
    for label in torch.unique(labels[right]).tolist():
        slots = spare[made_for[spare] == label]
        slots = slots[groups[ends[slots]].argsort(stable=True)]
        open_targets = (right & (labels == label)).nonzero().squeeze(1)
        open_targets = open_targets[groups[open_targets].argsort(stable=True)]
        rank = torch.arange(slots.numel())
        ends[slots] = open_targets[rank * open_targets.numel() // max(slots.numel(), 1)]
    links = torch.stack([new, question.threat.targets.cpu()[ends]])
    return _without_repeats(state.links, links, question.graph.num_nodes)


def _without_repeats(before: Tensor, links: Tensor, num_nodes: int) -> Tensor:
    """Return the new links, or the old ones of nodes that have one of them twice."""
    codes = links[0] * num_nodes + links[1]
    _, inverse, times = torch.unique(codes, return_inverse=True, return_counts=True)
    again = torch.zeros(int(links[0].max()) + 1, dtype=torch.bool)
    again[links[0][times[inverse] > 1]] = True
    return torch.where(again[links[0]], before, links)
