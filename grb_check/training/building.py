"""Building a victim from what a factory returned: train or probe it, freeze it, check it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data, HeteroData

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.edge_kinds import hetero_data
from grb_check.datasets.given_edges import EdgeKind
from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset
from grb_check.datasets.views import HIDDEN, as_given, training_view, validation_view
from grb_check.errors import ModelError, one_line
from grb_check.gradients.victim import Victim
from grb_check.training.adjacency_choice import (
    best_in_training,
    best_of_trained,
    first_error,
    needs_dense,
    with_any_rule,
    with_rule,
)
from grb_check.training.copies import copy_of
from grb_check.training.graphs import train_on_graphs
from grb_check.training.nodes import TrainingRun, TrainingSettings, train
from grb_check.training.probe import probe
from grb_check.user_code.calls import users_code
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.adjacency import AdjacencyRule
from grb_check.victims.checks import (
    check_has_values,
    check_no_state_kept,
    check_nothing_cached,
    check_output,
    check_takes_batch,
    returns_probabilities,
    warn_of_assumed_encoder,
    warn_of_dense_adjacency,
    warn_of_float_features,
    warn_of_ignored_structure,
    warn_of_probabilities,
    warn_of_random_forward,
    warn_of_training_mode,
    warn_of_training_step,
)
from grb_check.victims.conventions import BY_KIND, Convention, detect_convention
from grb_check.victims.foreign_forwards import reads_types
from grb_check.victims.probed import on_given_edges, probed_adapter
from grb_check.victims.single_output import SingleOutput, kind_of_single
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
class _Treatment:
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
    _treatment_of(built, dataset, name)


def untrained_victim(
    built: object, dataset: AnyDataset, *, name: str, device: torch.device
) -> Victim | None:
    """Return a copy of what a factory returned, as it is, on the graph that attacks see.

    None for what a training of its own may change: encoders and models with `fit`; and for models
    that do not say how their adjacency is normalised.

    Raises:
        ModelError: see `check_built`.
    """
    treatment = _treatment_of(built, dataset, name)
    if treatment.fit is not None or treatment.method == "encode" or isinstance(built, Encoder):
        return None
    module = copy_of(treatment.module).to(device).eval()
    freeze(module)
    adapter = Adapter(module, name, treatment.convention, treatment.method)
    if adapter.adjacency_is_open:
        return None
    return Victim(_on_targets(adapter, dataset, device), dataset.num_classes)


def adjacency_is_open(built: object, name: str) -> bool:
    """Return whether what a factory returned takes `adj` and does not say how it is normalised."""
    marked = built.module if isinstance(built, _MARKS) else built
    module = module_of(built)
    if not isinstance(module, nn.Module):
        return False
    given = marked.convention if isinstance(marked, Wrapped) else None
    method = _method(built, module)
    convention = given or detect_convention(module, method, name)
    return Adapter(module, name, convention, method).adjacency_is_open


def build_victim(
    built: object,
    dataset: AnyDataset,
    *,
    name: str,
    seed: int,
    device: torch.device,
    adj: AdjacencyRule | None = None,
) -> Victim:
    """Train or probe what a factory returned, freeze it and check it.

    Args:
        built: a module, `Trained`, `SelfTrained`, `Encoder`, or a module wrapped by `wrap`.
        dataset: to train on.
        name: of the model, for messages.
        seed: of the global random states while the user's code runs.
        device: of the model.
        adj: the rule for the argument `adj` of a model that does not say which; None for that under
            which it is best on the validation nodes, see `adjacency_choice`.

    Raises:
        ModelError: `built` is none of these; or the module raises, returns an invalid output,
            cannot be trained, keeps state between calls, or classifies graphs without being told
            which node belongs to which.
    """
    treatment = _treatment_of(built, dataset, name)
    view = _trial_view(dataset).to(device)
    with isolated_randomness(seed):
        module = _on_device(_module_to_train(built, treatment, name), name, device)
        encodes = isinstance(built, Encoder) or treatment.method == "encode"
        adapter = Adapter(module, name, treatment.convention, treatment.method).on_view(view)
        columns = None if encodes else dataset.num_classes
        late = treatment.fit is not None and first_error(adapter, view, seed) is not None
        if adj is not None and adapter.adjacency_is_open:
            adapter = with_rule(adapter, adj)
        if not late:
            adapter = _checked_call(adapter, view, dataset, seed, columns)
        if treatment.fit is not None:
            run_training(
                treatment.fit,
                _for_fit(training_view(dataset).to(device), treatment.convention),
                lambda: _for_fit(validation_view(dataset).to(device), treatment.convention),
                name,
            )
            _on_device(module, name, device)
            if late or adapter.single is not None:
                adapter = _checked_call(replace(adapter, single=None), view, dataset, seed, columns)
        elif not treatment.finished:
            adapter = _trained_in_harness(adapter, dataset, seed=seed, device=device)
        freeze(adapter.module)
        if adapter.adjacency_is_open:
            adapter = _with_best_rule(adapter, dataset, device, seed, encodes=encodes)
        trained = _with_probe(adapter, dataset, device) if encodes else adapter
    victim = _checked_victim(Victim(trained, dataset.num_classes), view, seed)
    return replace(victim, adapter=_on_targets(victim.adapter, dataset, device))


def _for_fit(view: Data, convention: Convention) -> Data | HeteroData:
    """Return a view as the module's own training gets it."""
    given = as_given(view)
    return hetero_data(given, convention.kinds) if convention.kinds else given


def _with_best_rule(
    adapter: Adapter, dataset: AnyDataset, device: torch.device, seed: int, *, encodes: bool
) -> Adapter:
    """Return a trained model whose `adj` is open with its best rule; an encoder by its probe."""

    def answers(tried: Adapter, view: Data) -> Tensor:
        output = tried.on_view(view)(view.x, view.edge_index)
        if not encodes:
            return output
        logits: Tensor = probe(tried, dataset, device=device).linear(output)
        return logits

    return best_of_trained(adapter, validation_view(dataset).to(device), answers, seed=seed)


def _on_targets(adapter: Adapter, dataset: AnyDataset, device: torch.device) -> Adapter:
    """Return a model for the graph, or the graphs, that attacks see."""
    if not isinstance(dataset, GraphDataset):
        return on_given_edges(adapter, dataset.given_edges)
    known = dataset.given_edges_of(dataset.graph)
    return on_given_edges(replace(adapter, batch=dataset.graph.batch.to(device)), known)


def _with_probe(encoder: Adapter, dataset: AnyDataset, device: torch.device) -> Adapter:
    """Return encoder and probe as one model, in which the encoder is given its edges."""
    probed = probe(encoder, dataset, device=device)
    freeze(probed)
    return probed_adapter(encoder, probed)


def _trial_view(dataset: AnyDataset) -> Data:
    """Return the view that an untrained model is checked on: the training view, or part of it."""
    view = training_view(dataset)
    if isinstance(dataset, GraphDataset):
        part = Batch.from_data_list([view[k] for k in range(min(TRIED, view.num_graphs))])
        part.given_edges = dataset.given_edges_of(part)
        return part
    return view


def _trained_in_harness(
    adapter: Adapter, dataset: AnyDataset, *, seed: int, device: torch.device
) -> Adapter:
    """Train a module; one whose `adj` is open under each rule, of which the best counts."""
    warn_of_training_step(adapter.module, adapter.name)

    def run(tried: Adapter) -> TrainingRun:
        if isinstance(dataset, GraphDataset):
            return train_on_graphs(tried, dataset, seed=seed, device=device)
        return train(tried, dataset, TrainingSettings(), seed=seed, device=device)

    if adapter.adjacency_is_open:
        return best_in_training(adapter, run)
    run(adapter)
    return adapter


def _treatment_of(built: object, dataset: AnyDataset, name: str) -> _Treatment:
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
    method = _method(built, module)
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
    _check_attributes(dataset, convention, name)
    forward = getattr(module, method)
    convention = replace(convention, kinds=_kinds_for(convention, dataset, forward, name))
    if isinstance(dataset, GraphDataset):
        check_takes_batch(Adapter(module, name, convention, method))
    return _Treatment(module, convention, method, finished, fit)


def _method(built: object, module: nn.Module) -> str:
    classifies = isinstance(built, (Trained, SelfTrained))
    return "encode" if not classifies and callable(getattr(module, "encode", None)) else "forward"


def _check_attributes(dataset: AnyDataset, convention: Convention, name: str) -> None:
    """Check that edges have the attributes that a module requires.

    Raises:
        ModelError: the dataset has none.
    """
    for attribute in ("edge_attr", "edge_type"):
        if not convention.roles & {attribute, f"{attribute}_dict"}:
            continue
        given = dataset.given_edges
        if given is None or attribute not in given.attributes:
            raise ModelError(
                f"model {name} requires {attribute}, but dataset {dataset.name} has no "
                f"{attribute}; put it into the data, or give the parameter a default"
            )


def _kinds_for(
    convention: Convention, dataset: AnyDataset, forward: Callable[..., object], name: str
) -> tuple[EdgeKind, ...]:
    """Return the names of the types of edges, if a module takes dicts by them or a `HeteroData`.

    Raises:
        ModelError: it requires dicts, and the dataset has no such names.
    """
    given = dataset.given_edges
    kinds = () if given is None else given.kinds
    if kinds and "data" in convention.roles:
        return kinds if reads_types(forward, kinds[0][0]) else ()
    if convention.roles & BY_KIND.keys() and not kinds:
        numbers = ", edge_type" if given is not None and "edge_type" in given.attributes else ""
        raise ModelError(
            f"model {name} takes the dicts of a HeteroData, but dataset {dataset.name} has no "
            f"named types of edges; give it as a HeteroData with one type of nodes, or return a "
            f"module whose forward takes (x, edge_index{numbers})"
        )
    return kinds if convention.dict_roles else ()


def _module_to_train(built: object, treatment: _Treatment, name: str) -> nn.Module:
    """Return the module to train, or of a finished model a copy."""
    if not treatment.finished or treatment.fit is not None:
        return treatment.module
    if isinstance(built, (Trained, Encoder)):
        warn_of_training_mode(treatment.module, name)
    else:
        warn_of_assumed_encoder(name)
    return copy_of(treatment.module)


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


def _checked_call(
    adapter: Adapter, view: Data, dataset: AnyDataset, seed: int, columns: int | None
) -> Adapter:
    """Check calls of a model; return it with what is known of its arguments and its output."""
    if isinstance(dataset, Dataset) and dataset.as_integers:
        adapter = _with_integers(adapter, view, seed)
    if needs_dense(adapter, view, dataset.num_nodes, seed):
        warn_of_dense_adjacency(adapter.name)
        adapter = replace(adapter, convention=replace(adapter.convention, dense=True))
    called = with_any_rule(adapter, view, seed)
    if columns == 2:
        single = _single(called, view, seed)
        adapter, called = replace(adapter, single=single), replace(called, single=single)
    check_no_state_kept(called, view, seed, columns)
    _dry_run(called, view, seed, columns)
    return adapter


def _with_integers(adapter: Adapter, view: Data, seed: int) -> Adapter:
    """Return a model that gets integer features as they are, or as floats if it fails with them."""
    whole, floats = (replace(adapter, x_dtype=dtype) for dtype in (torch.int64, torch.float32))
    error = first_error(whole, view, seed)
    if error is None or first_error(floats, view, seed) is not None:
        return whole
    warn_of_float_features(adapter.name, one_line(error.__cause__ or error))
    return floats


def _single(adapter: Adapter, view: Data, seed: int) -> SingleOutput | None:
    """The kind of the only output for each row, if the model has one alone."""
    trial = replace(adapter, module=copy_of(adapter.module))
    with suppress(ModelError), evaluating(trial.module), isolated_randomness(seed), torch.no_grad():
        return kind_of_single(trial(view.x, view.edge_index), adapter.rows(view.x.shape[0]))
    return None


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
        edge_index=view.edge_index,
    )


def builtin_training(built: object, dataset: AnyDataset, name: str) -> Callable[..., object] | None:
    """Return the training that what a factory returned brings along, if it does.

    Raises:
        ModelError: see `check_built`.
    """
    return _treatment_of(built, dataset, name).fit


def run_training(
    fit: Callable[..., object],
    view: Data | HeteroData,
    validation: Callable[[], Data | HeteroData],
    name: str,
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
    labels = view.node_stores[0]["y"]
    hint = "" if labels.min() > HIDDEN else f" (labels outside of train_mask are {HIDDEN})"
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
