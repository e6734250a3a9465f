"""Models of two classes with one output for each row: a logit, or the probability of class 1."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

SingleOutput: TypeAlias = Literal["logit", "probability"]


def kind_of_single(output: object, rows: int) -> SingleOutput | None:
    """Return the kind of an output float [rows] or [rows, 1]; None for any other output.

    Numbers that all lie in [0, 1] are probabilities, as after a sigmoid.
    """
    if not isinstance(output, Tensor) or output.layout is not torch.strided:
        return None
    if list(output.shape) not in ([rows], [rows, 1]) or not output.is_floating_point():
        return None
    values = output.detach()
    return "probability" if bool(((values >= 0) & (values <= 1)).all()) else "logit"


def two_columns(output: Tensor, kind: SingleOutput) -> Tensor:
    """Return the same answers as float [rows, 2], of classes 0 and 1.

    A sigmoid of z is a softmax of (0, z), and cross-entropy on them is binary cross-entropy on z.

    Args:
        output: float [rows] or [rows, 1].
        kind: logits, or probabilities of class 1.
    """
    single = output.reshape(-1)
    first = torch.zeros_like(single) if kind == "logit" else 1 - single
    return torch.stack([first, single], dim=1)
