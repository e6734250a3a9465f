"""What must hold of a model before its figures mean anything: one function a fact."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from grb_check.errors import ModelError
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.conventions import Adapter


class ModelWarning(UserWarning):
    """A model may not mean what its figures seem to say."""


class TrainingModeWarning(ModelWarning):
    """A trained model was handed over in training mode."""


class AssumedEncoderWarning(ModelWarning):
    """A module was taken as an encoder because it has `encode`."""


class RandomForwardWarning(ModelWarning):
    """Two calls on the same graph differ in evaluation mode."""


class StateUncheckedWarning(ModelWarning):
    """The model cannot be copied, so it is not known whether calls influence each other."""


class StructureIgnoredWarning(ModelWarning):
    """The output is the same whatever the edges are."""


def check_output(
    output: object,
    *,
    name: str,
    called: object,
    rows: int,
    columns: int | None,
    one_for: str = "node",
) -> Tensor:
    """The output itself, a finite float tensor [rows, columns].

    Args:
        output: what the model returned.
        name: of the model.
        called: how it was called, for the message.
        columns: None allows any number, for embeddings.
        one_for: what has a row, `node` or `graph`.

    Raises:
        ModelError: it is anything else.
    """
    width = "any" if columns is None else columns
    expected = f"called as {called} it must return a float tensor [{rows}, {width}]"
    if not isinstance(output, Tensor):
        raise ModelError(f"model {name}: {expected}, got a {type(output).__name__}")
    shape = list(output.shape)
    if len(shape) != 2 or shape[0] != rows or columns not in (None, shape[1]):
        hint = ""
        if len(shape) == 2 and shape[0] == rows:
            hint = (
                "; if these are embeddings, return grb_check.Encoder(module), so that a linear "
                "probe is fitted to them"
            )
        raise ModelError(f"model {name}: {expected}, one row a {one_for}{hint}, got shape {shape}")
    if not output.is_floating_point():
        raise ModelError(
            f"model {name}: {expected}, got {output.dtype}; return logits, not predicted classes"
        )
    finite = torch.isfinite(output)
    if not finite.all():
        bad = int((~finite).any(dim=1).sum())
        raise ModelError(f"model {name}: {expected}, got NaN or infinity in {bad} of {rows} rows")
    return output


def check_nothing_cached(module: nn.Module, name: str) -> None:
    """No PyG layer keeps the normalised graph of its first call.

    Raises:
        ModelError: one does.
    """
    for path, layer in module.named_modules():
        if isinstance(layer, MessagePassing) and getattr(layer, "cached", False) is True:
            raise ModelError(
                f"model {name}: layer {path or type(layer).__name__} has cached=True and would "
                f"answer for its first graph on every other; set cached=False"
            )


def check_takes_batch(adapter: Adapter) -> None:
    """A model of graphs can be told which nodes belong to which of them.

    Raises:
        ModelError: it is called with features and edges alone.
    """
    if not adapter.convention.takes_batch:
        raise ModelError(
            f"model {adapter.name} is called as {adapter.convention}; graphs have classes here, "
            f"many of them in one call: it must take (x, edge_index, batch), batch being the graph "
            f"of each node, or (data) with data.batch, and return one row for each graph"
        )


def check_no_state_kept(adapter: Adapter, view: Data, seed: int, columns: int | None) -> None:
    """A call does not depend on the calls before; tried on copies, so nothing is left behind.

    A model whose calls differ for randomness alone is not judged here.

    Raises:
        ModelError: after another graph the answer is another one, or none.
    """
    try:
        fresh, used = copy.deepcopy(adapter), copy.deepcopy(adapter)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        _warn(
            StateUncheckedWarning,
            f"model {adapter.name} cannot be copied ({reason}), so it was not checked whether "
            f"it keeps state between calls",
        )
        return
    fresh.module.eval()
    used.module.eval()
    alone = _answer(fresh, view, view.edge_index, seed, columns)
    if not _same(alone, _answer(fresh, view, view.edge_index, seed, columns)):
        return
    _answer(used, view, _other_edges(view), seed, columns)
    try:
        after_another = _answer(used, view, view.edge_index, seed, columns)
    except ModelError as error:
        raise ModelError(
            f"{_KEEPS_STATE.format(adapter.name)}; after one it fails:\n{error}"
        ) from error
    if not _same(alone, after_another):
        raise ModelError(
            f"{_KEEPS_STATE.format(adapter.name)}; compute what depends on the graph in every call"
        )


_KEEPS_STATE = (
    "model {} keeps state between calls: its answer on a graph depends on the graph it saw before"
)


def warn_of_training_mode(module: nn.Module, name: str) -> None:
    """Say so when any part of a finished model is in training mode."""
    if any(part.training for part in module.modules()):
        _warn(
            TrainingModeWarning,
            f"model {name} was handed over in training mode and is put into evaluation mode; "
            f"call .eval() when it is trained",
        )


def warn_of_assumed_encoder(name: str) -> None:
    """Say what is done with a module that has `encode`, no `fit`, and was not wrapped."""
    _warn(
        AssumedEncoderWarning,
        f"model {name} has encode() and no fit(): it is taken as a trained encoder, frozen, with a "
        f"linear probe on its embeddings; return grb_check.Encoder(module) to confirm it, or "
        f"grb_check.Trained(module) for a finished classifier",
    )


def warn_of_random_forward(adapter: Adapter, view: Data, seed: int) -> bool:
    """Whether two calls in a row differ; if so, say it."""
    with isolated_randomness(seed), torch.no_grad():
        first, second = (adapter(view.x, view.edge_index) for _ in range(2))
    random = not _same(first, second)
    if random:
        _warn(
            RandomForwardWarning,
            f"model {adapter.name} is random in evaluation mode: two calls on the same graph "
            f"differ, which blurs its figures and hides its gradients",
        )
    return random


def warn_of_ignored_structure(adapter: Adapter, view: Data, seed: int) -> None:
    """Say so when other edges give the same output, as of an MLP or a cached graph."""
    if view.edge_index.shape[1] == 0:
        return
    here, there = (
        _answer(adapter, view, edges, seed, None) for edges in (view.edge_index, _other_edges(view))
    )
    if torch.equal(here, there):
        _warn(
            StructureIgnoredWarning,
            f"model {adapter.name} answers the same whatever the edges are: it uses no graph, or "
            f"one it has kept, and no change of edges can be seen in its figures",
        )


def _answer(
    adapter: Adapter, view: Data, edge_index: Tensor, seed: int, columns: int | None
) -> Tensor:
    with isolated_randomness(seed), torch.no_grad():
        output = adapter(view.x, edge_index)
    rows = adapter.rows(view.x.shape[0])
    return check_output(
        output,
        name=adapter.name,
        called=adapter.convention,
        rows=rows,
        columns=columns,
        one_for=adapter.one_for,
    )


def _other_edges(view: Data) -> Tensor:
    """As many edges among the same nodes, but others: what is kept by size alone is found too.

    Of graphs side by side none leads to another.
    """
    batch: Tensor | None = view.get("batch")
    if batch is None:
        batch = view.edge_index.new_zeros(view.x.shape[0])
    sizes = torch.bincount(batch)
    starts = (sizes.cumsum(0) - sizes)[batch[view.edge_index]]
    others: Tensor = (view.edge_index - starts + 1) % sizes[batch[view.edge_index]] + starts
    return others


def _same(first: Tensor, second: Tensor) -> bool:
    # Sums on a GPU come in any order.
    return first.shape == second.shape and torch.allclose(first, second, rtol=1e-4, atol=1e-5)


def _warn(category: type[ModelWarning], message: str) -> None:
    warnings.warn(message, category, stacklevel=2)
