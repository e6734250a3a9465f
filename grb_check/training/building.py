"""From what a factory returned to a victim: trained or probed, frozen and checked."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import nn
from torch_geometric.data import Batch, Data

from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.datasets.views import HIDDEN, AnyDataset, training_view, validation_view
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim
from grb_check.training.graphs import train_on_graphs
from grb_check.training.nodes import TrainingSettings, train
from grb_check.training.probing import probe
from grb_check.training.training_hook import Lesson, by_itself
from grb_check.user_code.randomness import isolated_randomness
from grb_check.user_code.tracebacks import short_traceback
from grb_check.victims.checks import (
    check_no_state_kept,
    check_nothing_cached,
    check_output,
    check_takes_batch,
    warn_of_assumed_encoder,
    warn_of_ignored_structure,
    warn_of_random_forward,
    warn_of_training_mode,
)
from grb_check.victims.conventions import Adapter, Convention, detect_convention
from grb_check.victims.modes import evaluating, freeze
from grb_check.victims.probed import probed_adapter
from grb_check.victims.wrappers import Encoder, SelfTrained, Trained, Wrapped, module_of

_MARKS = (Trained, SelfTrained, Encoder)
TRIED: Final = 64  # graphs


@dataclass(frozen=True, eq=False)
class _Plan:
    """What there is to do with what a factory returned."""

    module: nn.Module
    convention: Convention | None  # None: to be detected
    method: str
    finished: bool  # handed over trained
    fit: Callable[..., object] | None  # the model's own training


def build_victim(
    built: object,
    dataset: AnyDataset,
    *,
    name: str,
    seed: int,
    device: torch.device,
    lesson: Lesson = by_itself,
) -> Victim:
    """Train or probe what a factory returned, freeze it and check it.

    Args:
        built: a module, `Trained`, `SelfTrained`, `Encoder`, or what `wrap` made of a module.
        name: of the model, for messages.
        seed: of the global random states while code of the user runs.
        lesson: how it is brought to the end of its training, where there is any.

    Raises:
        ModelError: it is nothing of the kind, raises, answers nonsense, cannot be trained, keeps
            state between calls, or is to classify graphs and cannot tell them apart.
    """
    plan = _plan(built, name)
    view = _trial_view(dataset).to(device)
    with isolated_randomness(seed):
        module = plan.module.to(device)
        check_nothing_cached(module, name)
        convention = plan.convention or detect_convention(module, plan.method, name)
        adapter = Adapter(module, name, convention, plan.method, view.get("batch"))
        if isinstance(dataset, GraphDataset):
            check_takes_batch(adapter)
        encodes = isinstance(built, Encoder) or plan.method == "encode"
        columns = None if encodes else dataset.num_classes
        late = plan.fit is not None and not _answers(adapter, view, seed)
        if not late:
            _check_called(adapter, view, seed, columns)

        def learn() -> Adapter:
            if plan.fit is not None:
                _fit(plan.fit, dataset, name, device)
                module.to(device)
                if late:
                    _check_called(adapter, view, seed, columns)
            elif not plan.finished:
                _train(adapter, dataset, seed=seed, device=device)
            freeze(module)
            return _with_probe(adapter, dataset, device) if encodes else adapter

        finished = plan.finished and plan.fit is None and not encodes
        # What cannot be called yet cannot be compared with what another process has trained.
        learnt = learn() if finished or late else lesson(adapter, learn, encodes)
    victim = Victim(learnt, dataset.num_classes)
    _check_finished(victim, view, seed)
    if isinstance(dataset, GraphDataset):
        return victim.on_graphs(dataset.graph.batch.to(device))
    return victim


def _with_probe(encoder: Adapter, dataset: AnyDataset, device: torch.device) -> Adapter:
    probed = probe(encoder, dataset, device=device)
    freeze(probed)
    return probed_adapter(encoder, probed)


def _trial_view(dataset: AnyDataset) -> Data:
    """What a model is tried on before it is trained: the training view, of many graphs some."""
    view = training_view(dataset)
    if isinstance(dataset, GraphDataset):
        return Batch.from_data_list([view[index] for index in range(min(TRIED, view.num_graphs))])
    return view


def _train(adapter: Adapter, dataset: AnyDataset, *, seed: int, device: torch.device) -> None:
    if isinstance(dataset, GraphDataset):
        train_on_graphs(adapter, dataset, seed=seed, device=device)
    else:
        train(adapter, dataset, TrainingSettings(), seed=seed, device=device)


def _plan(built: object, name: str) -> _Plan:
    marked = built.module if isinstance(built, _MARKS) else built
    module = module_of(built)
    convention = marked.convention if isinstance(marked, Wrapped) else None
    if not isinstance(module, nn.Module):
        inside = f"{type(built).__name__} of a " if built is not marked else ""
        kind = f"class {module.__name__}" if inspect.isclass(module) else type(module).__name__
        raise ModelError(
            f"model {name}: the factory returned a {inside}{kind}; it must return a "
            f"torch.nn.Module (with fit(data) if it trains itself, with encode(...) if a probe "
            f"is to be fitted), grb_check.Trained(module), grb_check.SelfTrained(module, fit), "
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
        own = getattr(module, "fit", None)
        fit = own if callable(own) else None
    finished = isinstance(built, (Trained, Encoder)) or method == "encode"
    if finished and fit is None:
        if isinstance(built, (Trained, Encoder)):
            warn_of_training_mode(module, name)
        else:
            warn_of_assumed_encoder(name)
        module = _own_copy(module)
    return _Plan(module, convention, method, finished, fit)


def _checked_fit(built: SelfTrained, name: str) -> Callable[..., object]:
    if not callable(built.fit):
        raise ModelError(
            f"model {name}: grb_check.SelfTrained holds a {type(built.fit).__name__} as fit; it "
            f"must be a function of the training view, such as lambda data: ..."
        )
    return built.fit


def _own_copy(module: nn.Module) -> nn.Module:
    """A copy, so that freezing leaves the user's model alone; the model where it has none."""
    try:
        return copy.deepcopy(module)
    except Exception:  # whatever a user's attribute raises; check_no_state_kept reports it
        return module


def _check_called(adapter: Adapter, view: Data, seed: int, columns: int | None) -> None:
    check_no_state_kept(adapter, view, seed, columns)
    _dry_run(adapter, view, seed, columns)


def _answers(adapter: Adapter, view: Data, seed: int) -> bool:
    """Whether a module that trains itself can be called before; some make their layers then."""
    trial = replace(adapter, module=_own_copy(adapter.module))
    try:
        with isolated_randomness(seed), torch.no_grad():
            trial(view.x, view.edge_index)
    except ModelError:
        return False
    return True


def _dry_run(adapter: Adapter, view: Data, seed: int, columns: int | None) -> None:
    """One call on the training view, which also gives lazy parameters their shapes."""
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


def _fit(fit: Callable[..., object], dataset: AnyDataset, name: str, device: torch.device) -> None:
    extra = {}
    try:
        declared = inspect.signature(fit).parameters
    except (TypeError, ValueError):
        declared = {}  # type: ignore[assignment]
    if "validation" in declared:
        extra["validation"] = validation_view(dataset).to(device)
    view = training_view(dataset).to(device)
    hint = "" if view.y.min() > HIDDEN else f" (labels outside of train_mask are {HIDDEN})"
    try:
        fit(view, **extra)
    except Exception as error:
        raise ModelError(
            f"model {name}: its own training raised{hint}:\n{short_traceback(error)}"
        ) from error


def _check_finished(victim: Victim, view: Data, seed: int) -> None:
    with torch.no_grad(), isolated_randomness(seed):
        victim(view.x, view.edge_index)
    if not warn_of_random_forward(victim.adapter, view, seed):
        warn_of_ignored_structure(victim.adapter, view, seed)
