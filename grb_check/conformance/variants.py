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
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from grb_check.conformance.model import BrokenPropertyError, CheckedModel, NotApplicableError
from grb_check.datasets.dataset import Dataset
from grb_check.errors import ModelError
from grb_check.training.building import builtin_training, run_training
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.probed import Probed, probed_adapter
from grb_check.victims.wrappers import module_of

PART: Final = 150  # training nodes, and as many others, of the graph that is trained on
_DROPOUTS: Final = frozenset(
    {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout}
)


def label_leakage(model: CheckedModel) -> None:
    """Check that labels outside the training mask do not change what is learned.

    The model's own `fit` is called twice with the same seed on a part of the dataset. The second
    time `data.y` has other labels outside `data.train_mask`, and `validation.y` outside
    `validation.train_mask` and `validation.val_mask`.

    Raises:
        NotApplicableError: there is no `fit`, it fails on the part, or it is not reproducible.
        BrokenPropertyError: the weights are others.
    """
    first = _trained(model, 0)
    different = _difference(first, _trained(model, 1))
    if not different:
        return
    if _difference(first, _trained(model, 0)):
        raise NotApplicableError("two trainings with the same seed give different weights")
    raise BrokenPropertyError(
        f"with other labels outside the training mask, fit learns another {different}", None
    )


def _trained(model: CheckedModel, shift: int) -> nn.Module:
    subject = model.subject
    if not isinstance(model.dataset, Dataset) or subject.finished:
        raise NotApplicableError("it is not trained here on a graph with labels of nodes")
    built = subject.build(model.dataset, 0, model.device)
    fit = builtin_training(built, model.dataset, subject.name)
    if fit is None:
        raise NotApplicableError("it has no fit of its own, and is shown no other labels")
    view, validation = (part.to(model.device) for part in _views(model.dataset, shift))
    try:
        with isolated_randomness(0):
            run_training(fit, view, lambda: validation, subject.name)
    except ModelError as error:
        raise NotApplicableError(f"fit fails on a part of the graph: {error}") from error
    module = module_of(built)
    assert isinstance(module, nn.Module)  # checked by builtin_training
    return module


def _views(dataset: Dataset, shift: int) -> tuple[Data, Data]:
    """A part of the graph as seen in training and in validation, with labels moved by `shift`."""
    graph = dataset.graph
    learned = torch.zeros(dataset.num_nodes, dtype=torch.bool)
    learned[dataset.train.cpu()[:PART]] = True
    others = (~learned).nonzero().flatten()[:PART]
    held_out = torch.zeros_like(learned)
    held_out[others[::2]] = True
    nodes = torch.cat([learned.nonzero().flatten(), others]).sort().values
    on_device = nodes.to(graph.edge_index.device)
    edge_index, _ = subgraph(
        on_device, graph.edge_index, relabel_nodes=True, num_nodes=dataset.num_nodes
    )

    def view(known: Tensor) -> Data:
        y = graph.y[on_device].cpu()
        y = torch.where(known[nodes], y, (y + shift) % dataset.num_classes)
        return Data(x=graph.x[on_device].clone(), edge_index=edge_index.clone(), y=y)

    training, validation = view(learned), view(learned | held_out)
    training.train_mask = validation.train_mask = learned[nodes]
    validation.val_mask = held_out[nodes]
    return training, validation


def _difference(first: nn.Module, second: nn.Module) -> str:
    """Name of a tensor of the state dict that differs; empty if there is none."""
    others = second.state_dict()
    for name, value in first.state_dict().items():
        if not torch.equal(value, others[name]):
            return name
    return ""


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
    created = module_of(model.subject.build(model.dataset, 1, model.device))
    assert isinstance(created, nn.Module)  # checked when the first was built
    created.to(model.device).eval()
    try:
        created.load_state_dict(inner.module.state_dict())
    except RuntimeError as error:
        raise BrokenPropertyError(str(error), None) from error
    fresh = replace(inner, module=created)
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
