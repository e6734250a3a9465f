"""What an attack maximises over the logits of its targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch.nn.functional as F
from torch import Tensor

from grb_check.errors import choose

Objective = Callable[[Tensor, Tensor], Tensor]

HELD_SHARE: Final = 0.7  # of 0.4, 0.7 and 1.0 the best for greedy flips on Cora and Citeseer
CONFIDENCE: Final = 4.0  # r of TDGIA, in nats; that of its authors' code


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of logits [t, c] against labels [t]; what GRB's attacks maximise.

    A target that is lost already keeps its full share of the gradient.
    """
    return F.cross_entropy(logits, labels)


def masked_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over the targets that are still classified as labelled; 0 where none is.

    The masked cross-entropy of `Robustness of Graph Neural Networks at Scale
    <https://arxiv.org/abs/2110.14038>`_ (Geisler et al. 2021, section 2): nothing is spent on
    targets that are lost, and of the others the least confident weigh most. Its value falls where a
    target is lost, so that it serves greedy attacks better than searches.
    """
    held = logits.detach().argmax(1) == labels
    loss = F.cross_entropy(logits, labels, reduction="none")
    return (loss * held).sum() / held.sum().clamp(min=1)


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Mean of :math:`\max_{c \ne y} z_c - z_y` over logits z [t, c]: the Carlini-Wagner margin.

    As in `Topology Attack and Defense <https://arxiv.org/abs/1906.04214>`_ (Xu et al. 2019,
    equation 3 with no confidence cut). Lost targets keep their full share of the gradient.
    """
    return margins_of(logits, labels).mean()


def tanh_margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Mean of :math:`\tanh(\max_{c \ne y} z_c - z_y)` over logits z [t, c] and labels y [t].

    The tanh margin of `Robustness of Graph Neural Networks at Scale
    <https://arxiv.org/abs/2110.14038>`_ (Geisler et al. 2021, section 2): a smooth count of lost
    targets, whose gradient is largest at the decision boundary and fades on both sides of it.
    """
    return margins_of(logits, labels).tanh().mean()


def held_margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Mean of :math:`\tanh(\min(m, 0) / s)` over the margins :math:`m = \max_{c \ne y} z_c - z_y`.

    A tanh margin (see there) of the targets that are still held, as the masked cross-entropy is a
    cross-entropy of those: what is lost counts 0 and draws no gradient, so that no part of a budget
    is spent on losing it twice, and those close to the boundary draw most. The scale s,
    `HELD_SHARE` of the median margin of the held targets, makes it independent of the scale of
    a model's logits; no gradient flows through it. (our choice; none of the papers)
    """
    margins = margins_of(logits, labels)
    held = -margins.detach()[margins.detach() < 0]
    scale = HELD_SHARE * held.median().clamp(min=1e-12) if held.numel() else 1.0
    return (margins.clamp(max=0) / scale).tanh().mean()


def probability_margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Mean of :math:`\max_{c \ne y} p_c - p_y` over the softmax p of logits [t, c].

    As the tanh margin, but the scale of the logits does not matter; so models that differ in it
    weigh the same in an ensemble.
    """
    return margins_of(logits.softmax(1), labels).mean()


def clipped_likelihood(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Minus the mean of :math:`\max(r + \ln p_y, 0)^2`, the loss of TDGIA.

    `TDGIA <https://arxiv.org/abs/2106.06663>`_ (Zou et al. 2021, section 4.4): the better a target
    is still classified, the more it counts; below a probability of exp(-r) it counts no more.
    """
    surplus = (CONFIDENCE - F.cross_entropy(logits, labels, reduction="none")).clamp(min=0)
    return -surplus.square().mean()


def margins_of(values: Tensor, labels: Tensor) -> Tensor:
    """The best other class's value [t, c] minus the label's own [t]; positive: lost.

    With a single class nothing can be lost, and no value is better than another.
    """
    if values.shape[1] == 1:
        return 0 * values.squeeze(1) - 1
    own = values.gather(1, labels[:, None]).squeeze(1)
    other = values.scatter(1, labels[:, None], float("-inf")).amax(1)
    return other - own


OBJECTIVES: Final[Mapping[str, Objective]] = {
    "tanh_margin": tanh_margin,
    "held_margin": held_margin,
    "probability_margin": probability_margin,
    "margin": margin,
    "cross_entropy": cross_entropy,
    "masked_cross_entropy": masked_cross_entropy,
    "clipped_likelihood": clipped_likelihood,
}


def objective_named(name: str) -> Objective:
    """The objective of that name.

    Raises:
        UsageError: there is none.
    """
    return OBJECTIVES[choose("objective", name, tuple(OBJECTIVES))]
