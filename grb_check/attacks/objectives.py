"""Objectives that attacks maximise over the logits of their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch.nn.functional as F
from torch import Tensor

from grb_check.errors import choose

Objective = Callable[[Tensor, Tensor], Tensor]

HELD_SHARE: Final = 0.7  # the best of 0.4, 0.7 and 1.0 for greedy flips on Cora and Citeseer
CONFIDENCE: Final = 4.0  # r of TDGIA, in nats, as in its authors' code
# Reached when every target is misclassified, by any margin or with all certainty.
_HIGHEST: Final[Mapping[str, float]] = {
    "tanh_margin": 1.0,
    "held_margin": 0.0,
    "probability_margin": 1.0,
    "clipped_likelihood": 0.0,
}


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of logits [t, c] against labels [t]; the objective of GRB's attacks.

    Targets that are already misclassified keep their full share of the gradient.
    """
    return F.cross_entropy(logits, labels)


def masked_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the targets that are still classified as labelled; 0 if none is.

    The masked cross-entropy of `Robustness of Graph Neural Networks at Scale
    <https://arxiv.org/abs/2110.14038>`_ (Geisler et al. 2021, section 2): misclassified targets
    have no gradient, and the least confident of the others have the largest. The value drops when a
    target becomes misclassified, so it suits greedy attacks better than searches.
    """
    held = logits.detach().argmax(1) == labels
    loss = F.cross_entropy(logits, labels, reduction="none")
    return (loss * held).sum() / held.sum().clamp(min=1)


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Mean of :math:`\max_{c \ne y} z_c - z_y` over logits z [t, c]: the Carlini-Wagner margin.

    As in `Topology Attack and Defense <https://arxiv.org/abs/1906.04214>`_ (Xu et al. 2019,
    equation 3 without a confidence cut). Misclassified targets keep their full share of the
    gradient.
    """
    return margins_of(logits, labels).mean()


def tanh_margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Mean of :math:`\tanh(\max_{c \ne y} z_c - z_y)` over logits z [t, c] and labels y [t].

    The tanh margin of `Robustness of Graph Neural Networks at Scale
    <https://arxiv.org/abs/2110.14038>`_ (Geisler et al. 2021, section 2): a smooth count of
    misclassified targets, whose gradient is largest at the decision boundary.
    """
    return margins_of(logits, labels).tanh().mean()


def held_margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Mean of :math:`\tanh(\min(m, 0) / s)` over the margins :math:`m = \max_{c \ne y} z_c - z_y`.

    A tanh margin of the targets that are still classified as labelled (held), as the masked
    cross-entropy is a cross-entropy of those: a misclassified target counts 0 and has no gradient,
    so that no budget is spent on it again, and targets close to the boundary have the largest. The
    scale s, `HELD_SHARE` of the median margin of the held targets, makes the objective independent
    of the scale of a model's logits; no gradient flows through it. (our choice; in none of the
    papers)
    """
    margins = margins_of(logits, labels)
    held = -margins.detach()[margins.detach() < 0]
    scale = HELD_SHARE * held.median().clamp(min=1e-12) if held.numel() else 1.0
    return (margins.clamp(max=0) / scale).tanh().mean()


def probability_margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Mean of :math:`\max_{c \ne y} p_c - p_y` over the softmax p of logits [t, c].

    Independent of the scale of the logits, so that models which differ in it have equal weight in
    an ensemble.
    """
    return margins_of(logits.softmax(1), labels).mean()


def clipped_likelihood(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Minus the mean of :math:`\max(r + \ln p_y, 0)^2`, the loss of TDGIA.

    `TDGIA <https://arxiv.org/abs/2106.06663>`_ (Zou et al. 2021, section 4.4): the more probable
    its label, the more a target counts; from a probability of exp(-r) down it counts 0.
    """
    surplus = (CONFIDENCE - F.cross_entropy(logits, labels, reduction="none")).clamp(min=0)
    return -surplus.square().mean()


def margins_of(values: Tensor, labels: Tensor) -> Tensor:
    """Return the largest value of another class minus that of the label, [t]; above 0:
    misclassified.

    With a single class nothing can be misclassified: the margin is -1 and has gradient 0.

    Args:
        values: float [t, c].
        labels: int64 [t].
    """
    if values.shape[1] == 1:
        return 0 * values.squeeze(1) - 1
    label_values = values.gather(1, labels[:, None]).squeeze(1)
    other = values.scatter(1, labels[:, None], float("-inf")).amax(1)
    return other - label_values


OBJECTIVES: Final[Mapping[str, Objective]] = {
    "tanh_margin": tanh_margin,
    "held_margin": held_margin,
    "probability_margin": probability_margin,
    "margin": margin,
    "cross_entropy": cross_entropy,
    "masked_cross_entropy": masked_cross_entropy,
    "clipped_likelihood": clipped_likelihood,
}


def highest_of(name: str) -> float:
    """Return the highest value that the objective of that name can reach, or infinity."""
    return _HIGHEST.get(name, float("inf"))


def objective_named(name: str) -> Objective:
    """Return the objective of that name.

    Raises:
        UsageError: the name is unknown.
    """
    return OBJECTIVES[choose("objective", name, tuple(OBJECTIVES))]
