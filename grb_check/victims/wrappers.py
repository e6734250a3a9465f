"""Wrappers around the module that a factory returns, which say what the harness does with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from torch import nn

from grb_check.errors import ModelError, UsageError, choose
from grb_check.victims.adjacency import ADJACENCY_RULES, AdjacencyRule
from grb_check.victims.conventions import Convention, parse_convention


def freeze(module: nn.Module) -> None:
    """Set evaluation mode, and switch off the gradients of all parameters."""
    module.eval()
    for parameter in module.parameters():  # TorchScript has no Module.requires_grad_
        parameter.requires_grad_(False)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Set evaluation mode inside; restore the mode of every part afterwards, also on errors."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Freeze a module inside; restore modes and `requires_grad` afterwards, also on errors."""
    flags = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    with evaluating(module):
        try:
            freeze(module)
            yield
        finally:
            for parameter, requires_grad in flags:
                parameter.requires_grad_(requires_grad)


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A module with its calling convention given; made by `wrap`."""

    module: nn.Module
    convention: Convention


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished model, used as it is; the harness works on a copy if it can be copied."""

    module: nn.Module | Wrapped


@dataclass(frozen=True, eq=False)
class Encoder:
    """A model whose outputs are embeddings; the harness freezes it and fits a linear probe.

    Attributes:
        module: its `encode` returns the embeddings, or its `forward` if it has no `encode`.
        pretrain: called once with the training view before the probe is fitted, such as
            `module.fit`; None for an encoder that is trained already.
    """

    module: nn.Module | Wrapped
    pretrain: Callable[..., object] | None = None


@dataclass(frozen=True, eq=False)
class SelfTrained:
    """An untrained model with its own training.

    Attributes:
        module: the victim, once `fit` has been called.
        fit: called once with the training view, and with `validation=` the validation view if it
            declares that, as the method `fit` of a module is; it trains `module` in place. The
            global random states are seeded before the call.
    """

    module: nn.Module | Wrapped
    fit: Callable[..., object]


def wrap(
    module: nn.Module,
    *,
    forward: str,
    adj: AdjacencyRule | Callable[..., object] | None = None,
) -> Wrapped:
    """Set how a module is called, for parameter names from which it cannot be detected.

    Args:
        module: what the factory would return, or what `Trained`, `SelfTrained` and `Encoder` would
            hold.
        forward: the arguments by position, such as `"x, adj_t"`.
        adj: the argument `adj`: `raw` for the adjacency as it is, `row` or `sym` for that with
            self-loops and normalised by degrees, see `victims.adjacency`, or a function from it, a
            scipy sparse matrix, to a matrix. None for the function `module.adj_norm_func`, and
            without one for the rule under which the model is best on the validation nodes.

    Raises:
        UsageError: `forward` names an argument that the harness cannot pass, or `adj` is unknown or
            is for no argument.
        ModelError: `module` is not a module.
    """
    if not isinstance(module, nn.Module):
        raise ModelError(f"wrap() takes a torch.nn.Module, got a {type(module).__name__}")
    convention = parse_convention(forward)
    if adj is None:
        return Wrapped(module, convention)
    if not callable(adj):
        choose("adj", adj, ADJACENCY_RULES)
    if "adj" not in convention.roles:
        raise UsageError(
            f"adj={adj!r} is for no argument of forward={forward!r}; name the argument adj there, "
            f"or leave adj out"
        )
    return Wrapped(module, replace(convention, adj=adj))


def module_of(built: object) -> object:
    """Return the module inside what a factory returned."""
    inner = built.module if isinstance(built, (Trained, Encoder, SelfTrained)) else built
    return inner.module if isinstance(inner, Wrapped) else inner
