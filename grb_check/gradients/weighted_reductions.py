"""Edge weights for modules of any operations: weights in every reduction over edges, for one call.

An edge of weight 1 is present, one of weight 0 absent. A graph neural network reduces values of its
edges to values of nodes; if each of these reductions is a weighted one, degrees become weighted
degrees, variances and other moments weighted moments, and so does all that is computed from them:

* a sum of m_e becomes sum_e w_e m_e; a count, which is a sum of ones, becomes sum_e w_e;
* a mean of PyG is sum_e w_e m_e / sum_e w_e, and sum_e w_e m_e where all weights are 0;
* a product becomes that of 1 + w_e (m_e - 1);
* a maximum or minimum is that of `for_maximum`;
* entries of a matrix made from edges are multiplied by w_e; in a module with layers of PyG, which
  may be given that matrix, the layers are given its edges instead;
* integer counts and sums, of which there is no gradient, are rounded;
* quantiles, sorted and sequential aggregations of PyG are those of `aggregations`.

A reduction is recognised by its index: a row of a matrix [2, f] of edges of the graph, of which
some may be missing and to which self-loops may have been added; its weights are looked up there. An
index computed from edges, such as a place in a matrix, is taken to be in the order of all edges if
it has as many entries. The trial in `weight_trial` shows whether that is right.

The sum of exponentials in a softmax is that of all edges where all weights are 0; their gradient is
then the neighbour's contribution rather than infinite. Detached values, such as the maximum that a
softmax subtracts, are left as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch_geometric.nn.aggr import MeanAggregation
from torch_geometric.utils import is_torch_sparse_tensor, scatter

from grb_check.errors import GradientError
from grb_check.gradients.aggregations import RANKED, SEQUENCES
from grb_check.gradients.averaging import first_argument
from grb_check.gradients.edge_lookup import EdgeLookup
from grb_check.gradients.layer_calls import layers_of
from grb_check.gradients.sparse_sums import SparseSums

_EXPONENTIALS: Final = (torch.exp, torch.exp_, Tensor.exp, Tensor.exp_)
_SUMS: Final = (
    torch.scatter_add,
    Tensor.scatter_add,
    Tensor.scatter_add_,
    torch.index_add,
    Tensor.index_add,
    Tensor.index_add_,
)
_REDUCTIONS: Final = (torch.scatter_reduce, Tensor.scatter_reduce, Tensor.scatter_reduce_)
_NAMES: Final = ("input", "self", "dim", "index", "src", "source", "reduce")  # of their arguments
_SPARSE: Final = ("indices", "values", "size")


def for_maximum(
    messages: Tensor, weights: Tensor, index: Tensor, dim: int, without: Tensor
) -> Tensor:
    """Return messages whose maximum at each node is that of the messages of weight 1.

    A message m_e moves with its weight from the lowest at its node, low_i, to its own value, v_e =
    w_e m_e + (1 - w_e) low_i; sum_i w (1 - w) relu(m - max_i v) is added, without which absent
    messages would have no gradient.

    Args:
        messages: float, f long along dimension `dim`.
        weights: float [f].
        index: int64 [f], the node of each message.
        dim: the dimension.
        without: float, N long along dimension `dim`: values of nodes whose weights are all 0.
    """
    num_nodes = without.shape[dim]

    def reduced(values: Tensor, reduce: str) -> Tensor:
        of_nodes: Tensor = scatter(values, index, dim=dim, dim_size=num_nodes, reduce=reduce)
        return of_nodes.index_select(dim, index)

    crowded = along(~lonely(weights, index, num_nodes), messages, dim)
    weights = along(weights, messages, dim)
    low = torch.where(crowded, reduced(messages, "min"), without.index_select(dim, index))
    moved = weights * messages + (1 - weights) * low
    excess = torch.where(crowded, torch.relu(messages - reduced(moved, "max")), 0.0)
    return moved + reduced(weights * (1 - weights) * excess, "sum")


def lonely(weights: Tensor, index: Tensor, num_nodes: int) -> Tensor:
    """Return bool [f]: whether all messages to the node of an edge have a weight of 0."""
    with torch.no_grad():
        return (weights.new_zeros(num_nodes).index_add(0, index, weights) == 0)[index]


def along(values: Tensor, tensor: Tensor, dim: int) -> Tensor:
    """Return values [f] in the shape that broadcasts along dimension `dim` of a tensor."""
    shape = [1] * tensor.dim()
    shape[dim] = -1
    values = values if values.dtype == torch.bool else values.to(tensor.dtype)
    return values.view(shape)


@contextmanager
def weighted_reductions(
    module: nn.Module,
    edges: EdgeLookup,
    weights: Tensor,
    *,
    matrices: bool | None = None,
    sums: SparseSums | None = None,
) -> Iterator[None]:
    """Give every reduction over edges in a module's call inside these weights.

    The module is restored afterwards, also on errors. Memory and time are those of the module on
    all edges, whatever their weights, and a copy of the values of each reduction but for `sums`.

    Args:
        module: in evaluation mode.
        edges: of the graph that the module is called with inside.
        weights: float [e]; may require a gradient.
        matrices: whether matrices that are made from edges have weighted entries; if not given,
            those of a module without layers of PyG. Layers that are given such a matrix are else
            given its edges.
        sums: of the module, which products take the place of; no copy of their messages is made.

    Raises:
        GradientError: a layer uses the edges of an earlier call.
    """
    layers = layers_of(module)
    of_matrices = not layers if matrices is None else matrices
    mode = _WeightedReductions(edges, weights, of_matrices=of_matrices)
    with ExitStack() as stack:
        for layer in layers:
            if getattr(layer, "cached", False) is True:
                raise GradientError(f"layer {type(layer).__name__} has cached=True")
            if not of_matrices:
                hook = layer.register_forward_pre_hook(_with_edges, with_kwargs=True)
                stack.callback(hook.remove)
            stack.callback(setattr, layer, "fuse", layer.fuse)
            layer.fuse = False  # fused layers make no messages
        for part in module.modules():
            weighted = _AGGREGATIONS.get(type(part))
            if weighted is not None:
                stack.callback(vars(part).pop, "forward")
                vars(part)["forward"] = _aggregated(part, weighted, mode)
        if sums is not None:
            of_edges = partial(edges.weights, weights)
            stack.enter_context(sums.used(of_edges, outside=mode.paused))
        stack.enter_context(mode)
        yield


def _with_edges(
    layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Give a layer its edges as int64 [2, f] where a module calls it with a sparse matrix."""
    signature = inspect.signature(layer.forward)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None  # the layer's own call says what is wrong
    matrix = bound.arguments.get("edge_index")
    if not isinstance(matrix, Tensor) or not is_torch_sparse_tensor(matrix):
        return None
    ends, values = _entries(matrix)
    bound.arguments["edge_index"] = ends
    if "edge_weight" in signature.parameters and not bool((values == 1).all()):
        bound.arguments["edge_weight"] = values
    return bound.args, bound.kwargs


def _weighted_mean(
    part: nn.Module, messages: Tensor, index: Tensor, weights: Tensor, num_nodes: int, dim: int
) -> Tensor:
    """Return the output of a `MeanAggregation`, float, N long along `dim`."""
    sums = weights.new_zeros(num_nodes).index_add(0, index, weights)
    shares = (weights / torch.where(sums > 0, sums, 1.0)[index]).to(messages.dtype)
    shape = list(messages.shape)
    shape[dim] = num_nodes
    return messages.new_zeros(shape).index_add(dim, index, messages * along(shares, messages, dim))


_AGGREGATIONS: Final = {**RANKED, **SEQUENCES, MeanAggregation: _weighted_mean}


def _aggregated(
    part: nn.Module, weighted: Callable[..., Tensor], mode: _WeightedReductions
) -> Callable[..., Tensor]:
    """Return the `forward` of a PyG aggregation over edges that have weights."""

    def forward(
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        **others: Any,
    ) -> Tensor:
        weights = None if index is None else mode.weights_of(index, 0)
        if index is None or weights is None:
            result: Tensor = type(part).forward(part, x, index, ptr, dim_size, dim, **others)
            return result
        size = int(index.max()) + 1 if dim_size is None else dim_size
        with mode.paused():  # for the reductions of the weighted aggregation itself
            return weighted(part, x, index, weights, size, dim % x.dim())

    return forward


class _WeightedReductions(TorchFunctionMode):
    """Replaces the reductions over edges that are called while it is active."""

    def __init__(self, edges: EdgeLookup, given: Tensor, *, of_matrices: bool) -> None:
        super().__init__()
        self.edges = edges
        self.given = given
        self.of_matrices = of_matrices
        self.active = True
        self.detached = _TensorSet()
        self.exponentials = _TensorSet()
        # By id and version; edges are kept so that no other tensor gets their id.
        self.found: dict[tuple[int, int, bool], tuple[Tensor, Tensor | None]] = {}

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let reductions be what they are."""
        self.active = False
        try:
            yield
        finally:
            self.active = True

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not self.active:
            return func(*args, **kwargs)
        if func in _SUMS or func in _REDUCTIONS:
            given, others = _in_order(args, kwargs)
            return (self._sum if func in _SUMS else self._reduced)(func, *given, **others)
        if func is torch.bincount and self.weights_of(first_argument(args, kwargs), 0) is not None:
            return self._count(*args, **kwargs)
        constructs = func is torch.sparse_coo_tensor and (len(args) > 1 or "values" in kwargs)
        if constructs and self.of_matrices:
            args, kwargs = (), self._of_sparse(**dict(zip(_SPARSE, args, strict=False)), **kwargs)
        elif func is Tensor.__setitem__:
            args = self._of_dense(*args)
        output = func(*args, **kwargs)
        if func is Tensor.detach:
            self.detached.add(output)
        elif func in _EXPONENTIALS:
            self.exponentials.add(output)
        return output

    def weights_of(self, index: Tensor, dim: int) -> Tensor | None:
        """Return the weights float [f] of the edges that an index is a row of, or None.

        Args:
            index: int64, f long along dimension `dim` and expanded along all others.
            dim: the dimension.
        """
        others = (d for d in range(index.dim()) if d != dim % index.dim() and index.shape[d] > 1)
        if not index.numel() or any(index.stride(d) for d in others):
            return None
        length, weights = index.shape[dim], None
        base = index if index._base is None else index._base
        if base.dim() == 2 and base.is_contiguous():
            offset, step = index.storage_offset() - base.storage_offset(), index.stride(dim)
            if base.shape[0] == 2 and (step == 1 or length == 1):
                weights, first = self._weights_of_edges(base), offset % base.shape[1]
            elif base.shape[1] == 2 and step == 2:
                weights, first = self._weights_of_edges(base, transposed=True), offset // 2
            if weights is not None:
                return weights[first : first + length]
        # As many as there are nodes: more likely the graph of each node, by which they are pooled.
        of_all_edges = length == self.given.numel() != self.edges.num_nodes
        return self.given if of_all_edges else None

    def _weights_of_edges(self, edges: Tensor, transposed: bool = False) -> Tensor | None:
        """Return the weights of int64 [2, f], or None if these are no edges of the graph."""
        key = id(edges), edges._version, transposed
        if key not in self.found:
            try:
                weights = self.edges.weights(self.given, edges.T if transposed else edges)
            except GradientError:
                weights = None
            self.found[key] = edges, weights
        return self.found[key][1]

    def _sum(
        self, func: Any, to: Tensor, dim: int, index: Tensor, values: Tensor, **kw: Any
    ) -> Any:
        weights = self._fitting(index, dim, values)
        if weights is None:
            return func(to, dim, index, values, **kw)
        if not values.is_floating_point():
            weighted = values * along(weights.detach(), values, dim)
            added = torch.zeros_like(to, dtype=weighted.dtype)
            added = func(added, dim, index, weighted, **kw).round().to(to.dtype)
            return to.add_(added) if func.__name__.endswith("_") else to + added
        if values in self.exponentials:
            missing = lonely(weights, _flat(index, dim), to.shape[dim])
            weights = torch.where(missing, 1.0, weights)
        return func(to, dim, index, values * along(weights, values, dim), **kw)

    def _reduced(
        self,
        func: Any,
        to: Tensor,
        dim: int,
        index: Tensor,
        values: Tensor,
        reduce: str,
        *,
        include_self: bool = True,
    ) -> Any:
        weights = None if values in self.detached else self._fitting(index, dim, values)
        if weights is None or not values.is_floating_point():
            return func(to, dim, index, values, reduce, include_self=include_self)
        flat = _flat(index, dim)
        if reduce == "amax":
            values = for_maximum(values, weights, flat, dim, to)
        elif reduce == "amin":
            values = -for_maximum(-values, weights, flat, dim, -to)
        elif reduce == "prod":
            values = 1 + along(weights, values, dim) * (values - 1)
        elif reduce == "sum":
            values = values * along(weights, values, dim)
        else:
            raise GradientError(f"edges are reduced by {reduce!r}, which has no weights")
        return func(to, dim, index, values, reduce, include_self=include_self)

    def _of_dense(self, matrix: Tensor, places: Any, values: Any) -> tuple[Any, ...]:
        """Return the arguments of an assignment with weights in the values of a dense matrix."""
        pair = isinstance(places, tuple) and len(places) == 2
        if not pair or not all(
            isinstance(position, Tensor) and position.dim() == 1 for position in places
        ):
            return matrix, places, values
        weights = self.weights_of(places[1], 0) if matrix.is_floating_point() else None
        if weights is None or places[0].shape != places[1].shape:
            return matrix, places, values
        old = matrix[places]
        return matrix, places, old + weights.to(old.dtype) * (values - old)

    def _of_sparse(self, **given: Any) -> dict[str, Any]:
        """Return the arguments of a sparse matrix with weights in its values."""
        ends, values = given.get("indices"), given.get("values")
        if isinstance(ends, Tensor) and isinstance(values, Tensor) and ends.shape[0] == 2:
            weights = self._weights_of_edges(ends)
            if weights is not None:
                return {**given, "values": values * weights.to(values.dtype)}
        return given

    def _count(self, input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
        given = self.weights_of(input, 0)
        if weights is not None or given is None:
            return torch.bincount(input, weights, minlength)
        return torch.bincount(input, given.detach().double(), minlength).round().long()

    def _fitting(self, index: Tensor, dim: int, values: Tensor) -> Tensor | None:
        """Return the weights of an index, if there is one value for each."""
        if values.dim() != index.dim() and index.dim() != 1:
            return None
        weights = self.weights_of(index, dim if index.dim() > 1 else 0)
        fits = weights is not None and values.shape[dim] == weights.numel()
        return weights if fits else None


class _TensorSet:
    """A set of tensors, which are kept so that no other gets the id of one."""

    def __init__(self) -> None:
        self._by_id: dict[int, Tensor] = {}

    def add(self, tensor: Tensor) -> None:
        self._by_id[id(tensor)] = tensor

    def __contains__(self, tensor: Tensor) -> bool:
        return id(tensor) in self._by_id


def _flat(index: Tensor, dim: int) -> Tensor:
    """Return int64 [f] of an index that is expanded along all dimensions but one."""
    flat = index.movedim(dim, 0)
    while flat.dim() > 1:
        flat = flat.select(1, 0)
    return flat


def _in_order(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a reduction by position, and the others by name."""
    others = dict(kwargs)
    given = [*args, *(others.pop(name) for name in _NAMES if name in others)]
    return given, others


def _entries(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return int64 [2, f] from and to, and the values [f]; a row is the target of a message."""
    if matrix.layout == torch.sparse_coo:
        matrix = matrix.coalesce()
        return matrix.indices().flip(0), matrix.values()
    if matrix.layout != torch.sparse_csr:
        raise GradientError(f"a layer is given its edges as {matrix.layout}")
    counts = matrix.crow_indices().diff().long()
    rows = torch.arange(counts.numel(), device=counts.device).repeat_interleave(counts)
    return torch.stack([matrix.col_indices().long(), rows]), matrix.values()
