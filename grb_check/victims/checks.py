"""Checks on a model without which its figures would mean nothing, one function each."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from grb_check.errors import ModelError, count
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import FIXED_SIZE, Adapter
from grb_check.victims.adjacency import AdjacencyRule
from grb_check.victims.other_edges import other_edges

DIVERGED: Final = "; if its training diverges, lower the learning rate"
_FLOATS: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_KEEPS_STATE = (
    "model {} keeps state between calls: its output on a graph depends on the previous graph"
)


class ModelWarning(UserWarning):
    """The figures of a model may not mean what they seem to."""


class TrainingModeWarning(ModelWarning):
    """A trained model was handed over in training mode."""


class AssumedEncoderWarning(ModelWarning):
    """A module was assumed to be an encoder because it has `encode`."""


class RandomForwardWarning(ModelWarning):
    """Two calls on the same graph give different outputs in evaluation mode."""


class ChangingForwardWarning(ModelWarning):
    """Two calls on the same graph with the same seed give different outputs."""


class ProbabilitiesWarning(ModelWarning):
    """The output is a probability for each class."""


class StateUncheckedWarning(ModelWarning):
    """The model cannot be copied, so it is not known whether calls influence each other."""


class StructureIgnoredWarning(ModelWarning):
    """The output does not depend on the edges."""


class AdjacencyWarning(ModelWarning):
    """The harness has chosen the matrix of a model that is called as (x, adj)."""


class FeatureTypeWarning(ModelWarning):
    """A model gets features of another type than those of the data."""


class OtherEdgesWarning(ModelWarning):
    """A finished model is better on other edges than those of the data."""


class TrainingStepWarning(ModelWarning):
    """A model has a training of its own that the harness does not call."""


def check_output(
    output: object,
    *,
    name: str,
    called: object,
    rows: int,
    columns: int | None,
    one_for: str = "node",
    edge_index: Tensor | None = None,
    advice: str = "",
) -> Tensor:
    """Return the output of a model if it is a finite float tensor [rows, columns].

    Args:
        output: of the model.
        name: of the model.
        called: the calling convention, for the message.
        rows: expected rows.
        columns: expected columns; None allows any number, for embeddings.
        one_for: the thing that one row is for, `node` or `graph`.
        edge_index: int64 [2, e] of the call, to tell nodes without edges.
        advice: on numbers that are not finite, such as `DIVERGED`.

    Raises:
        ModelError: it is anything else.
    """
    width = "any" if columns is None else columns
    expected = f"called as {called} it must return a float tensor [{rows}, {width}]"
    if not isinstance(output, Tensor):
        several = "; return the logits alone" * isinstance(output, (tuple, list, dict))
        raise ModelError(f"model {name}: {expected}, got a {type(output).__name__}{several}")
    empty = _without_values(output)
    if empty:
        raise ModelError(
            f"model {name}: {expected}, got {empty}; return a dense tensor on the device of x"
        )
    shape = list(output.shape)
    if len(shape) != 2 or shape[0] != rows or columns not in (None, shape[1]):
        hint = ""
        if len(shape) == 2 and shape[0] == rows:
            hint = (
                "; if these are embeddings, return grb_check.Encoder(module), so that a linear "
                "probe is fitted to them"
            )
        elif len(shape) == 2 and one_for == "node":
            hint = FIXED_SIZE
        raise ModelError(
            f"model {name}: {expected}, one row per {one_for}, got shape {shape}{hint}"
        )
    if output.dtype not in _FLOATS:
        raise ModelError(
            f"model {name}: {expected}, got {output.dtype}; return logits as torch.float32, not "
            f"predicted classes"
        )
    finite = torch.isfinite(output)
    if not finite.all():
        bad = (~finite).any(dim=1)
        if edge_index is not None and one_for == "node" and _without_edges(bad, edge_index):
            advice = (
                ", all of them of nodes without edges; a mean or a normalisation by hand divides "
                "by their degree, which is 0: clamp it to at least 1"
            )
        raise ModelError(
            f"model {name}: {expected}, got NaN or infinity in {int(bad.sum())} of "
            f"{count(rows, 'row')}{advice}"
        )
    return output if type(output) is Tensor else output.as_subclass(Tensor)


def _without_edges(nodes: Tensor, edge_index: Tensor) -> bool:
    """Return whether all of these nodes, bool [N], have no edge."""
    degrees = torch.bincount(edge_index.flatten(), minlength=nodes.numel())
    return not bool(degrees.to(nodes.device)[nodes].any())


def _without_values(output: Tensor) -> str:
    """Return the kind of a tensor that is not dense or holds no values; empty for others."""
    if output.is_meta:
        return "a tensor on the meta device"
    if output.is_nested:
        return "a nested tensor"
    return "" if output.layout is torch.strided else f"a tensor of layout {output.layout}"


def check_has_values(module: nn.Module, name: str) -> None:
    """Check that no parameter or buffer is on the meta device.

    Raises:
        ModelError: one is.
    """
    for path, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_meta:
            raise ModelError(
                f"model {name}: {path} is on the meta device, which holds no values; create the "
                f"model without torch.device('meta'), or call to_empty(device='cpu') and load its "
                f"weights"
            )


def check_nothing_cached(module: nn.Module, name: str) -> None:
    """Check that no PyG layer caches the normalised graph of its first call.

    Raises:
        ModelError: a layer has `cached=True`.
    """
    for path, layer in module.named_modules():
        if isinstance(layer, MessagePassing) and getattr(layer, "cached", False) is True:
            raise ModelError(
                f"model {name}: layer {path or type(layer).__name__} has cached=True and would use "
                f"its first graph in all later calls; set cached=False"
            )


def check_takes_batch(adapter: Adapter) -> None:
    """Check that a model of graphs is told which nodes belong to which graph.

    Raises:
        ModelError: it is called with features and edges alone.
    """
    if not adapter.convention.takes_batch:
        raise ModelError(
            f"model {adapter.name} is called as {adapter.convention}, but many graphs are "
            f"classified in one call; it must take (x, edge_index, batch), where batch is the "
            f"graph of each node (or adj_t or adj instead of edge_index), or (data) with "
            f"data.batch, and return one row per graph"
        )


def check_no_state_kept(adapter: Adapter, view: Data, seed: int, columns: int | None) -> None:
    """Check on copies of a model that its output does not depend on earlier calls.

    A model that is random in evaluation mode passes, see `warn_of_random_forward`.

    Raises:
        ModelError: after a call on another graph the output differs, or the model raises.
    """
    try:
        fresh, used = copy.deepcopy(adapter), copy.deepcopy(adapter)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        _warn(
            StateUncheckedWarning,
            f"model {adapter.name} cannot be copied ({reason}), so it was not checked whether it "
            f"keeps state between calls",
        )
        return
    fresh.module.eval()
    used.module.eval()
    alone = _answer(fresh, view, view.edge_index, seed, columns)
    if not _same(alone, _answer(fresh, view, view.edge_index, seed, columns)):
        return
    _answer(used, view, other_edges(view), seed, columns)
    try:
        after_another = _answer(used, view, view.edge_index, seed, columns)
    except ModelError as error:
        raise ModelError(
            f"{_KEEPS_STATE.format(adapter.name)}; after another graph it fails:\n{error}"
        ) from error
    if not _same(alone, after_another):
        raise ModelError(
            f"{_KEEPS_STATE.format(adapter.name)}; recompute whatever depends on the graph in "
            f"every call"
        )


def warn_of_training_mode(module: nn.Module, name: str) -> None:
    """Warn if any part of a finished model is in training mode."""
    if any(part.training for part in module.modules()):
        _warn(
            TrainingModeWarning,
            f"model {name} was passed in training mode and is set to evaluation mode; "
            f"call .eval() after training",
        )


def warn_of_assumed_encoder(name: str) -> None:
    """Warn that a bare module with `encode` and without `fit` is taken as a trained encoder."""
    _warn(
        AssumedEncoderWarning,
        f"model {name} has encode() and no fit(), so it is taken as a trained encoder: it is "
        f"frozen, and a linear probe is fitted to its embeddings; return grb_check.Encoder(module) "
        f"to confirm this, or grb_check.Trained(module) for a finished classifier",
    )


def warn_of_training_step(module: nn.Module, name: str) -> None:
    """Warn if the harness trains a module that has a training step of its own."""
    if callable(getattr(module, "training_step", None)):
        _warn(
            TrainingStepWarning,
            f"model {name} has a training_step, which is not used: its forward was trained with "
            f"cross-entropy by the harness; return grb_check.SelfTrained(module, fit), where "
            f"fit(data) trains it, as in docs/how-to/model.md",
        )


def warn_of_chosen_adjacency(
    name: str, rule: AdjacencyRule, accuracies: Mapping[AdjacencyRule, float | None]
) -> None:
    """Warn that a rule was chosen by validation accuracies, None if the model failed."""
    told = ", ".join(
        f"{tried} {'failed' if accuracy is None else f'{accuracy:.1%}'}"
        for tried, accuracy in accuracies.items()
    )
    _warn(
        AdjacencyWarning,
        f"model {name} is called as (x, adj), and adj is {rule!r}, which is best on the validation "
        f"nodes ({told}); say which it was made for: grb_check.wrap(module, forward='x, adj', "
        f"adj={rule!r}), or give it a method adj_norm_func",
    )


def warn_of_float_features(name: str, reason: str) -> None:
    """Warn that a model fails with integer features, and gets floats."""
    _warn(
        FeatureTypeWarning,
        f"model {name} fails with x as it is in the data, int64 ({reason}), and gets float32; give "
        f"data.x.float(), or let the model convert it",
    )


def warn_of_dense_adjacency(name: str) -> None:
    """Warn that a model gets a dense matrix."""
    _warn(
        AdjacencyWarning,
        f"model {name} fails with a sparse matrix adj, and gets a dense one, with 4 bytes for each "
        f"pair of nodes",
    )


def warn_of_random_forward(adapter: Adapter, view: Data, seed: int) -> bool:
    """Return whether two calls in a row differ, and warn if they do.

    If they differ with the same seed as well, the difference is not from the global generators.
    """
    with isolated_randomness(seed), torch.no_grad():
        first, second = (_called(adapter, view, view.edge_index, None) for _ in range(2))
    if _same(first, second):
        return False
    again = [_answer(adapter, view, view.edge_index, seed, None) for _ in range(2)]
    if _same(*again):
        _warn(
            RandomForwardWarning,
            f"model {adapter.name} is random in evaluation mode: two calls on the same graph "
            f"differ, which adds noise to its figures and its gradients",
        )
    else:
        _warn(
            ChangingForwardWarning,
            f"the output of model {adapter.name} changes from call to call, with the same seed of "
            f"all global generators too: it keeps state between calls, such as a counter or a "
            f"generator of its own, so its figures depend on the order of the calls; compute the "
            f"output from the arguments and the weights alone",
        )
    return True


def returns_probabilities(output: Tensor) -> bool:
    """Return whether each row of logits [n, c] is not negative and sums to one."""
    sums = output.sum(dim=1)
    return bool((output >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)


def warn_of_probabilities(name: str) -> None:
    """Warn that attacks see the logarithm of a model's output."""
    _warn(
        ProbabilitiesWarning,
        f"the output of model {name} is a probability for each class; attacks use its logarithm, "
        f"which predicts the same classes and lets gradients through; return logits instead, which "
        f"cross-entropy expects when the harness trains the model",
    )


def warn_of_ignored_structure(adapter: Adapter, view: Data, seed: int) -> None:
    """Warn if other edges give the same output, as for an MLP or a cached graph."""
    others = other_edges(view)
    sets = (torch.unique(edges, dim=1) for edges in (others, view.edge_index))
    if torch.equal(*sets):  # such as in graphs of two nodes
        return
    original, there = (
        _answer(adapter, view, edges, seed, None) for edges in (view.edge_index, others)
    )
    if torch.equal(original, there):
        _warn(
            StructureIgnoredWarning,
            f"the output of model {adapter.name} does not depend on the edges: it ignores the "
            f"graph, or has cached one, so its figures cannot show any change of edges",
        )


def _answer(
    adapter: Adapter, view: Data, edge_index: Tensor, seed: int, columns: int | None
) -> Tensor:
    with isolated_randomness(seed), torch.no_grad():
        return _called(adapter, view, edge_index, columns)


def _called(adapter: Adapter, view: Data, edge_index: Tensor, columns: int | None) -> Tensor:
    output = adapter(view.x, edge_index)
    rows = adapter.rows(view.x.shape[0])
    return check_output(
        output,
        name=adapter.name,
        called=adapter.convention,
        rows=rows,
        columns=columns,
        one_for=adapter.one_for,
        edge_index=edge_index,
    )


def _same(first: Tensor, second: Tensor) -> bool:
    # On a GPU sums are in no fixed order.
    return first.shape == second.shape and torch.allclose(first, second, rtol=1e-4, atol=1e-5)


def _warn(category: type[ModelWarning], message: str) -> None:
    warnings.warn(message, category, stacklevel=2)
