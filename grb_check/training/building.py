"""Building a victim from what a factory returned: train or probe it, freeze it, check it.

The linear probe: a logistic regression on the embeddings of a frozen encoder.

Steps 2 and 3 of the protocol of `On the Adversarial Robustness of Graph Contrastive Learning
Methods <https://arxiv.org/abs/2311.17853>`_ (Guerranti et al. 2023, section 3.1). Attacks treat
encoder and probe as one model.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from grb_check.datasets.dataset import (
    HIDDEN,
    AnyDataset,
    GraphDataset,
    training_view,
    validation_view,
)
from grb_check.errors import ModelError
from grb_check.gradients.victim import Victim
from grb_check.training.graphs import train_on_graphs
from grb_check.training.nodes import TrainingSettings, train
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
from grb_check.victims.probed import Probed, probed_adapter
from grb_check.victims.wrappers import (
    Encoder,
    SelfTrained,
    Trained,
    Wrapped,
    evaluating,
    freeze,
    module_of,
)

# Weights of the L2 penalty beside the summed loss, on standardised embeddings; strongest first.
STRENGTHS: Final = (1000.0, 100.0, 10.0, 1.0, 0.1, 0.01)
MAX_ITERATIONS: Final = 1000


Probe = tuple[NDArray[np.float64], NDArray[np.float64]]  # weight [c, size], bias [c]


def probe(encoder: Adapter, dataset: AnyDataset, *, device: torch.device) -> Probed:
    """Fit a linear probe to the embeddings of the training nodes, or graphs.

    The penalty is the one of `STRENGTHS` with the highest validation accuracy, ties broken by the
    strongest; 1 if there is no validation set. The encoder is not changed.

    Raises:
        ModelError: the encoder raises, returns an invalid output, or changes when it is called.
    """
    encoder.module.eval()
    before = _state(encoder)
    with torch.no_grad():
        x, y, dtype = _embedded(encoder, training_view(dataset).to(device), "train_mask")
        held_out = _embedded(encoder, validation_view(dataset).to(device), "val_mask")[:2]
    _check_unchanged(before, encoder)
    weight, bias = chosen_probe((x, y), held_out, dataset.num_classes)
    return Probed(
        encoder,
        torch.from_numpy(weight).to(device, dtype),
        torch.from_numpy(bias).to(device, dtype),
    )


def chosen_probe(
    fitted: tuple[NDArray[np.float64], NDArray[np.int64]],
    held_out: tuple[NDArray[np.float64], NDArray[np.int64]],
    num_classes: int,
) -> Probe:
    """Return the logistic regression with the penalty that is best on held-out data.

    Args:
        fitted: embeddings [n, size] and labels [n] to fit.
        held_out: the same, to choose the penalty by; may be empty.
        num_classes: number of classes.
    """
    if not held_out[1].size:
        return fit_logistic_regression(*fitted, num_classes, 1.0)
    best, best_accuracy = None, -1.0
    for strength in STRENGTHS:
        weight, bias = fit_logistic_regression(*fitted, num_classes, strength)
        predicted = (held_out[0] @ weight.T + bias).argmax(axis=1)
        accuracy = float((predicted == held_out[1]).mean())
        if accuracy > best_accuracy:
            best, best_accuracy = (weight, bias), accuracy
    assert best is not None
    return best


def fit_logistic_regression(
    embeddings: NDArray[np.float64],
    labels: NDArray[np.int64],
    num_classes: int,
    strength: float,
) -> Probe:
    """Return weight [num_classes, size] and bias [num_classes] of the logistic regression

        min  sum_i -log softmax(W z_i + b)[y_i] + strength / 2 * |W|^2

    on standardised embeddings z, converted so that they apply to the embeddings themselves.
    Deterministic: full batch, from zero, in float64.
    """
    mean, deviation = embeddings.mean(axis=0), embeddings.std(axis=0)
    deviation[deviation < 1e-12] = 1.0  # a constant column carries no information
    # In torch, whose threads the harness sets: those of numpy's BLAS take eighty times as long
    # for products of this size when other processes compete for the cores.
    z = torch.from_numpy((embeddings - mean) / deviation)
    size = z.shape[1]
    one_hot = torch.from_numpy(np.eye(num_classes)[labels])  # [n, num_classes]

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        parameters = torch.from_numpy(flat.reshape(num_classes, size + 1))
        weight, bias = parameters[:, :-1], parameters[:, -1]
        log_probabilities = torch.log_softmax(z @ weight.T + bias, dim=1)
        loss = -(one_hot * log_probabilities).sum() + strength / 2 * (weight**2).sum()
        error = log_probabilities.exp() - one_hot
        gradient = torch.column_stack([error.T @ z + strength * weight, error.sum(dim=0)])
        return float(loss), gradient.ravel().numpy()

    start = np.zeros(num_classes * (size + 1))
    options = {"maxiter": MAX_ITERATIONS, "gtol": 1e-4}
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    result = result.reshape(num_classes, size + 1)
    weight = result[:, :-1] / deviation
    return weight, result[:, -1] - weight @ mean


def _embedded(
    encoder: Adapter, view: Data, mask: str
) -> tuple[NDArray[np.float64], NDArray[np.int64], torch.dtype]:
    """Return embeddings float64 [n, size], labels and dtype of masked nodes, or of graphs."""
    bound = replace(encoder, batch=view.get("batch"))
    embeddings = check_output(
        bound(view.x, view.edge_index),
        name=encoder.name,
        called=encoder.convention,
        rows=bound.rows(view.x.shape[0]),
        columns=None,
        one_for=bound.one_for,
    )
    rows = view.get(mask)
    counting = slice(None) if rows is None else rows
    selected, labels = embeddings[counting], view.y[counting]
    return selected.double().cpu().numpy(), labels.cpu().numpy(), embeddings.dtype


def _state(encoder: Adapter) -> dict[str, Tensor]:
    """Return copies of all parameters and buffers, including those outside the state dict."""
    module = encoder.module
    return {
        name: value.detach().clone()
        for name, value in (*module.named_parameters(), *module.named_buffers())
    }


def _check_unchanged(before: dict[str, Tensor], encoder: Adapter) -> None:
    after = _state(encoder)
    for name in {**before, **after}:
        if name not in before or name not in after or not _equal(before[name], after[name]):
            raise ModelError(
                f"model {encoder.name}: calling the encoder changed {name}; a frozen encoder must "
                f"not change, so check that it stays in evaluation mode"
            )


def _equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second)


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
