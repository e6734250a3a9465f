"""Other forms of a trained model, whose answers have to be the same."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from grb_check.conformance.model import BrokenPropertyError, CheckedModel, NotApplicableError
from grb_check.victims.probed import Probed, probed_adapter
from grb_check.victims.wrappers import module_of

_DROPOUTS: Final = frozenset(
    {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout}
)


def double_precision(model: CheckedModel) -> CheckedModel:
    """Return the model in float64."""
    return replace(model.around(_copy(model.victim.module).double()), dtype=torch.float64)


def on_cpu(model: CheckedModel) -> CheckedModel:
    """Return the model on the CPU.

    Raises:
        NotApplicableError: it is there already.
    """
    if model.device.type == "cpu":
        raise NotApplicableError("it is on the CPU; --grb-device=cuda compares a GPU with it")
    return replace(model.around(_copy(model.victim.module).cpu()), device=torch.device("cpu"))


def compiled(model: CheckedModel) -> CheckedModel:
    """Return what torch.compile records of the model, run by the kernels of eager mode.

    Raises:
        NotApplicableError: it is a TorchScript module.
    """
    module = model.victim.module
    if isinstance(module, torch.jit.ScriptModule):
        raise NotApplicableError("it is a TorchScript module")
    recorded = cast(nn.Module, torch.compile(module, dynamic=True, backend="eager"))
    quiet = replace(model.victim.adapter, module=recorded, within=_compiled)
    return model.called_by(quiet)


def in_training_mode(model: CheckedModel) -> CheckedModel:
    """Return the model in training mode, without dropout, normalised by the learned statistics.

    Raises:
        NotApplicableError: it draws something else than dropout.
    """
    module = model.victim.module
    within = partial(_training_without_dropout, module)
    variant = model.called_by(replace(model.victim.adapter, within=within))
    graph = model.dataset.graph
    if not torch.equal(variant.answer(graph, seed=0), variant.answer(graph, seed=1)):
        raise NotApplicableError("in training mode it is random, also without dropout")
    return variant


def reloaded(model: CheckedModel) -> CheckedModel:
    """Return a new module of the factory with the state dict of the trained one.

    Raises:
        NotApplicableError: there is no factory.
        BrokenPropertyError: the state dict does not fit.
    """
    if model.subject.finished:
        raise NotApplicableError("it is a finished module, and only a factory can make another")
    adapter = model.victim.adapter
    inner = adapter.module.adapter if isinstance(adapter.module, Probed) else adapter
    made = module_of(model.subject.build(model.dataset, 1, model.device))
    assert isinstance(made, nn.Module)  # checked when the first was built
    made.to(model.device).eval()
    try:
        made.load_state_dict(inner.module.state_dict())
    except RuntimeError as error:
        raise BrokenPropertyError(str(error), None) from error
    fresh = replace(inner, module=made)
    if isinstance(adapter.module, Probed):
        linear = adapter.module.linear
        fresh = probed_adapter(fresh, Probed(fresh, linear.weight, linear.bias))
    return model.called_by(fresh)


def _copy(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:  # whatever a user's attribute raises
        raise NotApplicableError(f"the module cannot be copied: {error}") from error


@contextmanager
def _compiled() -> Iterator[None]:
    """Let torch compile, as no attack does, without warnings about what it does not record."""
    switch = getattr(torch.compiler, "set_stance", None)  # since 2.6
    with warnings.catch_warnings(), nullcontext() if switch is None else switch("default"):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _training_without_dropout(module: nn.Module) -> Iterator[None]:
    modes = {part: part.training for part in module.modules()}
    module.train()
    for part in module.modules():
        if getattr(part, "track_running_stats", False):
            part.eval()
    try:
        with _NoDropout():
            yield
    finally:
        for part, mode in modes.items():
            part.training = mode


class _NoDropout(TorchFunctionMode):
    """Dropout keeps everything."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _DROPOUTS:
            given: Tensor = args[0] if args else (kwargs or {})["input"]
            return given
        return func(*args, **(kwargs or {}))
