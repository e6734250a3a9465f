"""Models whose layers are declared, so that attacks can compute only what changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from torch import Tensor, nn

from grb_check.gradients.normalisation import Normalisation
from grb_check.victims.receptive_field import is_plain

RowWise = Callable[[Tensor], Tensor]


class Alternating(Protocol):
    """A model that alternates row-wise maps f_l with one fixed matrix P, in evaluation mode:

        logits = f_K(P f_{K-1}(... P f_1(P f_0(x)))).

    A class is such a model if it defines `forward`, `stages` and `normalisation` itself. What a
    subclass inherits was declared of its parent's `forward`, and does not count.
    """

    @property
    def normalisation(self) -> Normalisation:
        """P = D^a (A + loop I) D^a; `left` and `right` are equal, `factor` is 1."""
        ...

    def stages(self) -> Sequence[RowWise]:
        """Return f_0 ... f_K, each from float [m, a] to float [m, b], row by row."""
        ...


def as_alternating(module: nn.Module) -> Alternating | None:
    """Return the module if its class declares its layers and no part of it was changed since."""
    declared = {"forward", "stages", "normalisation"} <= vars(type(module)).keys()
    if not declared or not isinstance(getattr(module, "normalisation", None), Normalisation):
        return None
    return cast(Alternating, module) if is_plain(module) else None
