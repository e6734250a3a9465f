"""Modules of other kinds of graphs, which are refused before they are called, with what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Final

from torch import nn

from grb_check.errors import ModelError

_OF_DGL: Final = (".ndata", ".edata", ".srcdata", ".update_all(", ".local_scope(", ".local_var(")
_BLOCKS: Final = frozenset({"blocks", "mfgs", "block"})  # of DGL's samplers
_ADJACENCIES: Final = frozenset({"adjs", "adj_list"})  # of PyG's NeighborSampler

_TYPES: Final = (
    "graphs of several types (HeteroData) in a way that the harness does not know; return a module "
    "whose forward takes (x_dict, edge_index_dict), or (x, edge_index, edge_type), see "
    "docs/how-to/fraud.md#edges-of-several-types"
)
_DGL: Final = (
    "a graph of DGL, which the harness cannot make; return a module whose forward takes "
    "(x, edge_index) and builds it: dgl.graph((edge_index[0], edge_index[1]), num_nodes=len(x)); "
    "gradients by edges need layers of PyG or a parameter edge_weight"
)
_SAMPLES: Final = (
    "the mini-batches of a sampler, and a model is attacked on the whole graph; return a module "
    "whose forward takes (x, edge_index), such as its inference method, with "
    "grb_check.SelfTrained(module, fit) if a sampler trains it"
)


def refuse_foreign(
    module: nn.Module,
    forward: Callable[..., object],
    required: Sequence[str],
    name: str,
    dicts: Collection[str],
) -> None:
    """Refuse a module whose arguments the harness cannot make.

    Args:
        module: returned by a factory.
        forward: its method that will be called.
        required: names of its parameters without a default.
        name: of the model, for messages.
        dicts: names of dicts by types that the harness makes.

    Raises:
        ModelError: it takes more dicts than are known, graphs of DGL, or of a sampler; says what
            to return.
    """
    source = _source_of(forward)
    reason = ""
    if any(parameter.endswith("_dict") and parameter not in dicts for parameter in required):
        reason = _TYPES
    elif _takes_dgl(module, source, required):
        reason = _DGL
    elif _ADJACENCIES & set(required):
        reason = _SAMPLES
    if reason:
        raise ModelError(f"model {name}: forward({', '.join(required)}) takes {reason}")


def reads_types(forward: Callable[..., object], node_type: str) -> bool:
    """Return whether a method reads its argument as a `HeteroData` with this type of nodes."""
    words = ".x_dict", ".edge_index_dict", ".edge_types", ".metadata()", f"[{node_type!r}]"
    source = _source_of(forward).replace('"', "'")
    return any(word in source for word in words)


def was_made_hetero(module: nn.Module) -> bool:
    """Return whether PyG's `to_hetero` made a module: it takes dicts under the names of tensors."""
    nodes = getattr(getattr(module, "graph", None), "nodes", ())
    targets = (getattr(node, "target", None) for node in nodes)
    return any(getattr(target, "__name__", "") == "get_dict" for target in targets)


def _takes_dgl(module: nn.Module, source: str, required: Sequence[str]) -> bool:
    if _BLOCKS & set(required):
        return True
    graph = {"g", "graph", "bg"} & set(required)
    layers = any(type(part).__module__.startswith("dgl.") for part in module.modules())
    return bool(graph) and (layers or any(word in source for word in _OF_DGL))


def _source_of(forward: Callable[..., object]) -> str:
    """Return the text of a method; empty if it has none, as of a compiled one."""
    try:
        return inspect.getsource(forward)
    except (OSError, TypeError):
        return ""
