"""What a factory may return beside a bare module: the module, and what to do with it.

Imports no model, so that the factories of the reference models can use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from grb_check.errors import ModelError
from grb_check.victims.conventions import Convention, parse_convention


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A module with its calling convention settled; made by `wrap`."""

    module: nn.Module
    convention: Convention


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished model, used as it is; the harness works on a copy where it can be copied."""

    module: nn.Module | Wrapped


@dataclass(frozen=True, eq=False)
class Encoder:
    """A model whose outputs are embeddings; the harness freezes it and fits a linear probe.

    Attributes:
        module: embeddings come from its `encode`, or from its `forward` where it has none.
        pretrain: called once with the training view before the probe, such as `module.fit`; None
            for an encoder that is trained already.
    """

    module: nn.Module | Wrapped
    pretrain: Callable[..., object] | None = None


@dataclass(frozen=True, eq=False)
class SelfTrained:
    """A model that has not been trained yet, and a training of its own for it.

    Attributes:
        module: the victim, once `fit` has been called.
        fit: called once with the training view, and with `validation=` the validation view where
            it declares that, as the method `fit` of a module is; it trains `module` in place. What
            it draws from the global random states is the seed's.
    """

    module: nn.Module | Wrapped
    fit: Callable[..., object]


def wrap(module: nn.Module, *, forward: str) -> Wrapped:
    """Settle how a module is called, where the names of its parameters do not tell.

    Args:
        module: what the factory would return, or what `Trained`, `SelfTrained` and `Encoder` would
            hold.
        forward: the arguments by position, such as `"x, adj_t"`.

    Raises:
        UsageError: `forward` names what the harness cannot pass.
        ModelError: `module` is no module.
    """
    if not isinstance(module, nn.Module):
        raise ModelError(f"wrap() takes a torch.nn.Module, got a {type(module).__name__}")
    return Wrapped(module, parse_convention(forward))


def module_of(built: object) -> object:
    """The module inside what a factory returned."""
    inner = built.module if isinstance(built, (Trained, Encoder, SelfTrained)) else built
    return inner.module if isinstance(inner, Wrapped) else inner
