"""Links of injected nodes that move to where they do more, or are dropped."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from grb_check.attacks.injection.shared.injected_nodes import Injected, LinkedNodes, strongest
from grb_check.attacks.injection.shared.links import candidates_of
from grb_check.attacks.injection.shared.nearby_links import nearby_links
from grb_check.attacks.injection.shared.weak_targets import label_groups
from grb_check.attacks.objectives import margins_of

MOVED: Final = (1.0, 0.5, 0.25, 0.1)  # shares of the spare links
GATHERED: Final = (0.4, 0.2, 0.07)  # shares of the links of right targets


def moved_links(state: Injected) -> Injected:
    """Return the state with some links moved, or without them: the strongest of these.

    * A lost target needs one link. The others are spare, and go to targets that are still right:
      the largest share of them (`MOVED`) that is a gain, else the smallest, because the ascent that
      follows may make it one.
    * Such a share is dropped: a model may damp senders of many links.
    * Links of right targets that are far from lost gather at right targets that are nearly lost.
    * Links go to other nodes than targets, where the threat allows it, see `nearby_links`.
    """
    spare = _spare(state)
    moved = _first_gain(state, spare, _sent_to_right)
    dropped = _first_gain(state, spare, _without)
    others = dropped, _gathered(state), *nearby_links(state)
    better = [changed for changed in others if changed.value > state.value]
    return strongest((moved, *better))


def _first_gain(
    state: Injected, order: Tensor, links_with: Callable[[Injected, Tensor], Tensor]
) -> Injected:
    """The state with the largest share of the spare links changed that is a gain."""
    changed = state
    for share in MOVED:
        changed = _asked(state, links_with(state, order[: int(share * order.numel())]))
        if changed.value > state.value:
            break
    return changed


def _gathered(state: Injected) -> Injected:
    """The strongest of the state and those with links of the clearest right targets at others."""
    margins, ends = _margins(state), state.ends.cpu()
    at_ends = state.at_ends(margins, math.nan)
    at_right = (at_ends <= 0).nonzero().squeeze(1)
    order = at_right[at_ends[at_right].argsort(stable=True)]
    tried = [state]
    for share in GATHERED:
        given = order[: int(share * order.numel())]
        receivers = margins <= 0
        receivers[ends[given]] = False
        tried.append(_asked(state, _sent(state, given, receivers)))
    return strongest(tried)


def _asked(state: Injected, links: Tensor) -> Injected:
    return LinkedNodes(state.question, links).asked_once(state.features)


def _margins(state: Injected) -> Tensor:
    """The targets' margins float [t], which unlike their tanh are not all -1 where far from 0."""
    return margins_of(state.logits, state.question.labels).cpu()


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
    at_ends = state.at_ends(state.margins.cpu(), math.nan)
    order = at_ends.argsort(descending=True, stable=True)
    order = order[at_ends[order] > 0]
    at = state.ends.cpu()[order]
    by_target = at.argsort(stable=True)
    first = torch.ones_like(at, dtype=torch.bool)
    first[by_target[1:]] = at[by_target[1:]] != at[by_target[:-1]]
    return order[~first]


def _sent_to_right(state: Injected, spare: Tensor) -> Tensor:
    return _sent(state, spare, _margins(state) <= 0)


def _sent(state: Injected, some: Tensor, receivers: Tensor) -> Tensor:
    """Return `injected_edges` with some links at other targets.

    They go to the receivers nearest to being lost, of the label that the injected node is made for.
    A link that the node would then have twice stays where it is.

    Args:
        state: whose links they are.
        some: int64 [s], links at targets that are no receivers.
        receivers: bool [t].
    """
    labels, ends, margins = state.question.labels.cpu(), state.ends.cpu().clone(), _margins(state)
    groups = label_groups(state.logits.softmax(1).cpu(), labels)
    made_for = _made_for(state, labels)[some]
    for label in torch.unique(labels[receivers]).tolist():
        links = some[made_for == label]
        links = links[groups[ends[links]].argsort(stable=True)]
        targets = (receivers & (labels == label)).nonzero().squeeze(1)
        targets = targets[margins[targets].argsort(descending=True, stable=True)][: links.numel()]
        targets = targets[groups[targets].argsort(stable=True)]
        rank = torch.arange(links.numel())
        ends[links] = targets[rank * targets.numel() // max(links.numel(), 1)]
    candidates = candidates_of(state.question.threat).cpu()
    ends = _without_repeats(state.links[0], state.ends.cpu(), ends, candidates.numel())
    return torch.stack([state.links[0], candidates[ends]])


def _made_for(state: Injected, labels: Tensor) -> Tensor:
    """Return for each link the most common label among the targets of its injected node."""
    new, ends = state.links[0], state.ends.cpu()
    at_target = ends < labels.numel()
    classes = F.one_hot(labels[ends[at_target]], int(labels.max()) + 1)
    counts = torch.zeros((state.features.shape[0], classes.shape[1]), dtype=torch.int64)
    return counts.index_add(0, new[at_target], classes).argmax(1)[new]


def _without_repeats(new: Tensor, before: Tensor, ends: Tensor, candidates: int) -> Tensor:
    """Return the ends int64 [e] of links, of which no injected node has one twice.

    Args:
        new: int64 [e], the injected nodes.
        before: int64 [e], ends without repeats, to none of which a link has moved.
        ends: int64 [e], with some of them moved.
        candidates: number of nodes that ends are among.
    """
    codes = new * candidates + ends
    order = torch.cat(
        [(ends == before).nonzero().squeeze(1), (ends != before).nonzero().squeeze(1)]
    )
    ranked = codes[order]
    by_code = ranked.argsort(stable=True)  # of equal ones, the links that stay come first
    again = torch.zeros_like(ranked, dtype=torch.bool)
    again[by_code[1:]] = ranked[by_code[1:]] == ranked[by_code[:-1]]
    result = ends.clone()
    result[order[again]] = before[order[again]]
    return result
