"""What an injection attack maximises over the logits of its targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch.nn.functional as F
from torch import Tensor

from grb_check.errors import UsageError

Objective = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of logits [t, c] against labels [t]; what GRB's attacks maximise.

    A target that is lost already keeps its full share of the gradient.
    """
    return F.cross_entropy(logits, labels)


def tanh_margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Mean of :math:`\tanh(\max_{c \ne y} z_c - z_y)` over logits z [t, c] and labels y [t].

    The tanh margin of `Robustness of Graph Neural Networks at Scale
    <https://arxiv.org/abs/2110.14038>`_ (Geisler et al. 2021, section 2): a smooth count of lost
    targets, whose gradient is largest at the decision boundary and fades on both sides of it.
    """
    own = logits.gather(1, labels[:, None]).squeeze(1)
    other = logits.scatter(1, labels[:, None], float("-inf")).amax(1)
    return (other - own).tanh().mean()


OBJECTIVES: Final[Mapping[str, Objective]] = {
    "tanh_margin": tanh_margin,
    "cross_entropy": cross_entropy,
}


def objective_named(name: str) -> Objective:
    """The objective of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in OBJECTIVES:
        raise UsageError(f"objective is {name!r}, allowed are {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]
