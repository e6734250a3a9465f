"""Building a victim from what a factory returned: train or probe it, freeze it, check it."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import nn
from torch_geometric.data import Batch, Data

from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset
from grb_check.datasets.views import HIDDEN, training_view, validation_view
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim
from grb_check.training.graphs import train_on_graphs
from grb_check.training.nodes import TrainingSettings, train
from grb_check.training.probe import probe
from grb_check.user_code.calls import users_code
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.checks import (
    check_has_values,
    check_no_state_kept,
    check_nothing_cached,
    check_output,
    check_takes_batch,
    returns_probabilities,
    warn_of_assumed_encoder,
    warn_of_ignored_structure,
    warn_of_probabilities,
    warn_of_random_forward,
    warn_of_training_mode,
)
from grb_check.victims.conventions import Adapter, Convention, detect_convention
from grb_check.victims.edge_attributes import EdgeAttributes, edge_attributes
from grb_check.victims.probed import probed_adapter
from grb_check.victims.wrappers import (
    Encoder,
    SelfTrained,
    Trained,
    Wrapped,
    evaluating,
    freeze,
    module_of,
)

_MARKS = (Trained, SelfTrained, Encoder)
TRIED: Final = 64  # graphs of a set that an untrained model is checked on


@dataclass(frozen=True, eq=False)
class _Plan:
    """Treatment of what a factory returned."""

    module: nn.Module
    convention: Convention
    method: str
    finished: bool  # it is trained already
    fit: Callable[..., object] | None  # the model's own training


def check_built(built: object, dataset: AnyDataset, name: str) -> None:
    """Check what a factory returned as far as that is possible without calling it.

    Raises:
        ModelError: `build_victim` would refuse it before any call.
    """
    _plan(built, dataset, name)


def build_victim(
    built: object,
    dataset: AnyDataset,
    *,
    name: str,
    seed: int,
    device: torch.device,
) -> Victim:
    """Train or probe what a factory returned, freeze it and check it.

    Args:
        built: a module, `Trained`, `SelfTrained`, `Encoder`, or a module wrapped by `wrap`.
        dataset: to train on.
        name: of the model, for messages.
        seed: of the global random states while the user's code runs.
        device: of the model.

    Raises:
        ModelError: `built` is none of these; or the module raises, returns an invalid output,
            cannot be trained, keeps state between calls, or classifies graphs without being told
            which node belongs to which.
    """
    plan = _plan(built, dataset, name)
    view = _trial_view(dataset).to(device)
    with isolated_randomness(seed):
        module = _on_device(_module_to_train(built, plan, name), name, device)
        encodes = isinstance(built, Encoder) or plan.method == "encode"
        attributes = None if encodes else _attributes(view, dataset)
        adapter = Adapter(
            module,
            name,
            plan.convention,
            plan.method,
            view.get("batch"),
            edge_attributes=attributes,
        )
        columns = None if encodes else dataset.num_classes
        late = plan.fit is not None and not _answers(adapter, view, seed)
        if not late:
            _check_called(adapter, view, seed, columns)
        if plan.fit is not None:
            given = training_view(dataset).to(device)
            run_training(plan.fit, given, lambda: validation_view(dataset).to(device), name)
            _on_device(module, name, device)
            if late:
                _check_called(adapter, view, seed, columns)
        elif not plan.finished:
            _train_in_harness(adapter, dataset, seed=seed, device=device)
        freeze(module)
        trained = _with_probe(adapter, dataset, device) if encodes else adapter
    victim = _checked_victim(Victim(trained, dataset.num_classes), view, seed)
    if isinstance(dataset, GraphDataset):
        of_test = None if encodes else _attributes(dataset.graph, dataset)
        victim = replace(victim, adapter=replace(victim.adapter, edge_attributes=of_test))
        return victim.on_graphs(dataset.graph.batch.to(device))
    return victim


def _attributes(graph: Data, dataset: AnyDataset) -> EdgeAttributes | None:
    if not isinstance(dataset, GraphDataset):
        return None
    return edge_attributes(graph, dataset.new_edge_attr)


def _with_probe(encoder: Adapter, dataset: AnyDataset, device: torch.device) -> Adapter:
    probed = probe(encoder, dataset, device=device)
    freeze(probed)
    return probed_adapter(encoder, probed)


def _trial_view(dataset: AnyDataset) -> Data:
    """Return the view that an untrained model is checked on: the training view, or part of it."""
    view = training_view(dataset)
    if isinstance(dataset, GraphDataset):
        return Batch.from_data_list([view[index] for index in range(min(TRIED, view.num_graphs))])
    return view


def _train_in_harness(
    adapter: Adapter, dataset: AnyDataset, *, seed: int, device: torch.device
) -> None:
    if isinstance(dataset, GraphDataset):
        train_on_graphs(adapter, dataset, seed=seed, device=device)
    else:
        train(adapter, dataset, TrainingSettings(), seed=seed, device=device)


def _plan(built: object, dataset: AnyDataset, name: str) -> _Plan:
    marked = built.module if isinstance(built, _MARKS) else built
    module = module_of(built)
    if not isinstance(module, nn.Module):
        inside = f"{type(built).__name__} of a " if built is not marked else ""
        kind = f"class {module.__name__}" if inspect.isclass(module) else type(module).__name__
        raise ModelError(
            f"model {name}: the factory returned a {inside}{kind}; it must return a "
            f"torch.nn.Module (with fit(data) if it trains itself, with encode(...) for a linear "
            f"probe), grb_check.Trained(module), grb_check.SelfTrained(module, fit), "
            f"grb_check.Encoder(module) or grb_check.wrap(module, forward=...)"
        )
    method = "forward"
    classifies = isinstance(built, (Trained, SelfTrained))
    if not classifies and callable(getattr(module, "encode", None)):
        method = "encode"
    fit = None
    if isinstance(built, Encoder):
        fit = built.pretrain
    elif isinstance(built, SelfTrained):
        fit = _checked_fit(built, name)
    elif not isinstance(built, Trained):
        module_fit = getattr(module, "fit", None)
        fit = module_fit if callable(module_fit) else None
    finished = isinstance(built, (Trained, Encoder)) or method == "encode"
    check_has_values(module, name)
    check_nothing_cached(module, name)
    given = marked.convention if isinstance(marked, Wrapped) else None
    convention = given or detect_convention(module, method, name)
    if "edge_attr" in convention.roles:
        _check_attributes(dataset, name, encodes=method == "encode" or isinstance(built, Encoder))
    if isinstance(dataset, GraphDataset):
        check_takes_batch(Adapter(module, name, convention, method))
    return _Plan(module, convention, method, finished, fit)


def _check_attributes(dataset: AnyDataset, name: str, *, encodes: bool) -> None:
    """Check that there are attributes of edges for a module that requires them.

    Raises:
        ModelError: the dataset has none, or the module is an encoder.
    """
    if encodes:
        raise ModelError(
            f"model {name} is an encoder that requires edge_attr, which only classifiers of graphs "
            f"get; give the parameter a default, or train the encoder with a classifier on top"
        )
    if not isinstance(dataset, GraphDataset) or dataset.new_edge_attr is None:
        raise ModelError(
            f"model {name} requires edge_attr, but dataset {dataset.name} has no attributes of "
            f"edges (those of a single graph are left out, since an attack adds edges that have "
            f"none; sets of graphs keep them); give the parameter a default"
        )


def _module_to_train(built: object, plan: _Plan, name: str) -> nn.Module:
    """Return the module to train, or of a finished model a copy."""
    if not plan.finished or plan.fit is not None:
        return plan.module
    if isinstance(built, (Trained, Encoder)):
        warn_of_training_mode(plan.module, name)
    else:
        warn_of_assumed_encoder(name)
    return _copy_of(plan.module)


def _on_device(module: nn.Module, name: str, device: torch.device) -> nn.Module:
    check_has_values(module, name)
    with users_code(f"model {name}: moving it to {device} raised", ModelError):
        return module.to(device)


def _checked_fit(built: SelfTrained, name: str) -> Callable[..., object]:
    if not callable(built.fit):
        raise ModelError(
            f"model {name}: fit of grb_check.SelfTrained is a {type(built.fit).__name__}; it must "
            f"be a function of the training view, such as lambda data: ..."
        )
    return built.fit


def _copy_of(module: nn.Module) -> nn.Module:
    """Return a copy, so that freezing does not change the user's model; itself if that fails."""
    try:
        return copy.deepcopy(module)
    except Exception:  # anything that a user's attribute raises; check_no_state_kept reports it
        return module


def _check_called(adapter: Adapter, view: Data, seed: int, columns: int | None) -> None:
    check_no_state_kept(adapter, view, seed, columns)
    _dry_run(adapter, view, seed, columns)


def _answers(adapter: Adapter, view: Data, seed: int) -> bool:
    """Return whether a module that trains itself can be called before its training."""
    trial = replace(adapter, module=_copy_of(adapter.module))
    try:
        with isolated_randomness(seed), torch.no_grad():
            trial(view.x, view.edge_index)
    except ModelError:
        return False
    return True


def _dry_run(adapter: Adapter, view: Data, seed: int, columns: int | None) -> None:
    """Check the output of one call, which also gives lazy parameters their shapes."""
    with evaluating(adapter.module), isolated_randomness(seed), torch.no_grad():
        output = adapter(view.x, view.edge_index)
    check_output(
        output,
        name=adapter.name,
        called=adapter.convention,
        rows=adapter.rows(view.x.shape[0]),
        columns=columns,
        one_for=adapter.one_for,
    )


def builtin_training(built: object, dataset: AnyDataset, name: str) -> Callable[..., object] | None:
    """Return the training that what a factory returned brings along, if it does.

    Raises:
        ModelError: see `check_built`.
    """
    return _plan(built, dataset, name).fit


def run_training(
    fit: Callable[..., object], view: Data, validation: Callable[[], Data], name: str
) -> None:
    """Call a model's own training.

    Args:
        fit: takes the training view, and `validation` if it has a parameter of that name.
        view: the training view.
        validation: returns the validation view.
        name: of the model, for messages.

    Raises:
        ModelError: it raised.
    """
    extra = {}
    try:
        declared = inspect.signature(fit).parameters
    except (TypeError, ValueError):
        declared = {}  # type: ignore[assignment]
    if "validation" in declared:
        extra["validation"] = validation()
    hint = "" if view.y.min() > HIDDEN else f" (labels outside of train_mask are {HIDDEN})"
    with users_code(f"model {name}: its own training raised{hint}", ModelError):
        fit(view, **extra)


def _checked_victim(victim: Victim, view: Data, seed: int) -> Victim:
    """Check a trained model by calling it; return it with what is known of its output."""
    with torch.no_grad(), isolated_randomness(seed):
        output = victim(view.x, view.edge_index)
    if not warn_of_random_forward(victim.adapter, view, seed):
        warn_of_ignored_structure(victim.adapter, view, seed)
    if not returns_probabilities(output):
        return victim
    warn_of_probabilities(victim.name)
    return replace(victim, probabilities=True)
