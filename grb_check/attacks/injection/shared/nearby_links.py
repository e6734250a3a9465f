"""Links of a gang's new accounts that go to nodes near its members, where that does more.

An exchange that steps by the sign of a gradient, as Adam nearly does, never prefers one link that
hides many members to many that hide one each. So here the size of the gradient ranks, and the
model's answers decide. (our choice; in none of the papers)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor

from grb_check.attacks.injection.shared.feature_search import gradients
from grb_check.attacks.injection.shared.injected_nodes import Injected, LinkedNodes
from grb_check.attacks.injection.shared.links import candidates_of
from grb_check.attacks.objectives import margins_of
from grb_check.errors import GradientError

SHARES: Final = (1.0, 0.5, 0.25, 0.1)  # of the injected nodes that move one link


def nearby_links(state: Injected) -> Iterator[Injected]:
    """Yield states in which some injected nodes have one link to a node that is no target.

    Nothing where links may go to targets alone, or where the model has no gradient in links. A node
    moves its link of the smallest gradient to the other node of the largest; those that seem to
    gain most come first.
    """
    candidates, targets = candidates_of(state.question.threat).cpu(), state.margins.numel()
    slopes = _slopes(state) if candidates.numel() > targets else None
    if slopes is None:
        return
    new, ends = state.links[0], state.ends.cpu()
    outside = slopes.clone()
    outside[:, :targets] = -torch.inf
    outside[new, ends] = -torch.inf  # links that there are
    best, end = outside.max(1)
    order = slopes[new, ends].argsort(stable=True)
    _, first = np.unique(new[order].numpy(), return_index=True)
    weakest = order[torch.from_numpy(first)]  # one link of each node that has any
    gains = best[new[weakest]] - slopes[new[weakest], ends[weakest]]
    moving = weakest[gains.argsort(descending=True, stable=True)]
    moving = moving[best[new[moving]].isfinite()]
    for count in dict.fromkeys(round(share * moving.numel()) for share in SHARES):
        if not count:
            break
        some = moving[:count]
        links = state.links.clone()
        links[1, some] = candidates[end[new[some]]]
        yield LinkedNodes(state.question, links).asked_once(state.features)


def _slopes(state: Injected) -> Tensor | None:
    """Return the gradient of the margins' sum in the weights of all links, float [n, m], if any."""
    question = state.question
    if isinstance(question.linked_guide, str):
        return None
    shape = (state.features.shape[0], candidates_of(question.threat).numel())
    weights = state.features.new_zeros(shape)
    weights[state.links[0].to(weights.device), state.ends] = 1.0
    weights.requires_grad_()
    try:
        with torch.enable_grad():
            logits = [logits_of(state.features, weights) for logits_of in question.linked_guide]
            value = margins_of(torch.stack(logits).mean(0), question.labels).tanh().sum()
        (result,) = gradients(value, weights)
    except GradientError:
        return None
    return result.cpu()
