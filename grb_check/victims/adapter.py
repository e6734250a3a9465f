"""A module of any calling convention behind the harness's interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data, HeteroData

from grb_check.datasets.dtypes import dtype_name
from grb_check.datasets.edge_kinds import by_kind, edges_by_kind, hetero_data
from grb_check.datasets.given_edges import EDGE_ATTRIBUTES, GivenEdges, SeenEdges
from grb_check.errors import ModelError
from grb_check.user_code.calls import restored_after_forward, short_traceback
from grb_check.victims.adjacency import adjacency_matrix
from grb_check.victims.conventions import BY_KIND, FEATURES, Convention, Role
from grb_check.victims.plain_calls import plain_calls
from grb_check.victims.receptive_field import is_patched
from grb_check.victims.single_output import SingleOutput, kind_of_single, two_columns
from grb_check.victims.sparse import coo_matrix, csr_matrix, with_long_indices

# In messages of torch about operands of different types.
_OF_DTYPES: Final = ("dtype", "Double", "Half", "BFloat16", "scalar type")
FIXED_SIZE: Final = (
    "; a model must answer for graphs of any number of nodes: it is trained on a part of the "
    "graph, and attacks add nodes, so that an embedding of node ids has no row for some"
)


def hint(module: nn.Module, error: BaseException) -> str:
    """Return advice on an error of a module; empty without any."""
    text = str(error)
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return ""
    dtypes = {parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()}
    others = sorted(map(dtype_name, dtypes - {torch.float32}))
    if others and any(word in text for word in _OF_DTYPES):
        return (
            f"\nits parameters are {' and '.join(others)}, and features are float32: call "
            f"module.float()"
        )
    if "cuda" in text.lower():
        return "\nleave the device to the harness: no .cuda(), and new tensors on x.device"
    if "x_dict'" in text or "edge_index_dict'" in text:
        return (
            "\nit reads the dicts of a HeteroData, and the dataset is none: give a HeteroData with "
            "one type of nodes"
        )
    embeds = any(isinstance(submodule, nn.Embedding) for submodule in module.modules())
    if embeds and isinstance(error, (RuntimeError, IndexError)):
        return "\n" + FIXED_SIZE.removeprefix("; ")
    return ""


@dataclass(frozen=True, eq=False)
class Adapter:
    """A module behind the harness's interface, `(x, edge_index, edge_weight=None)`.

    Any exception of the module becomes a `ModelError` with the user's frames.

    Attributes:
        module: to call.
        name: of the model, for messages.
        convention: the arguments of the call.
        method: `forward`, or `encode` for an encoder.
        batch: int64 [N], non-decreasing, the graph of each node, for a model that classifies
            graphs. Any other number of nodes than N is taken as one graph.
        within: gives a context in which each call of the module is made.
        given_edges: makes the edges that the module gets; None if they are those of the call.
        x_dtype: that features are passed in; None for that of the call.
        single: what the module's only output for each row is, in place of one for each of two
            classes; None if it has one for each class.
    """

    module: nn.Module
    name: str
    convention: Convention
    method: str = "forward"
    batch: Tensor | None = None
    within: Callable[[], AbstractContextManager[None]] = nullcontext
    given_edges: GivenEdges | None = None
    x_dtype: torch.dtype | None = None
    single: SingleOutput | None = None

    def rows(self, num_nodes: int) -> int:
        """Return the number of rows of the output: one for each node, or for each graph."""
        if self.batch is None:
            return num_nodes
        return int(self._batch_of(num_nodes, self.batch.device)[-1]) + 1 if num_nodes else 0

    @property
    def one_for(self) -> str:
        """The thing that one row of the output is for: "node" or "graph"."""
        return "node" if self.batch is None else "graph"

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return the output of the module, whose shape and type the caller checks.

        Raises:
            ModelError: the module raises, or weights are given and it takes none.
        """
        if edge_weight is not None and not self.convention.takes_edge_weight:
            raise ModelError(
                f"model {self.name} takes no edge weights: it is called as {self.convention}; "
                f"give its forward a parameter edge_weight"
            )
        given: dict[Role, object] = {} if edge_weight is None else {"edge_weight": edge_weight}
        return self.with_graph(edge_index, int(x.shape[0]), given)(x)

    def on_view(self, view: Data) -> Adapter:
        """Return the model for a view, see `training_view`."""
        return replace(self, batch=view.get("batch"), given_edges=view.get("given_edges"))

    def inside(self, context: Callable[[], AbstractContextManager[None]]) -> Adapter:
        """Return the model called in another context, outside of its own."""

        @contextmanager
        def within() -> Iterator[None]:
            with context(), self.within():
                yield

        return replace(self, within=within)

    def seen(self, edge_index: Tensor, num_nodes: int) -> SeenEdges:
        """Return the edges that the module gets for undirected edges int64 [2, e]."""
        if self.given_edges is None:
            return SeenEdges(edge_index)
        return self.given_edges.seen(edge_index, num_nodes)

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to output with the graph fixed, prepared once."""
        plain = self.method == "forward" and self.batch is None and self.x_dtype is None
        prepared = plain and self.given_edges is None and _has_on_topology(self.module)
        if prepared and not is_patched(self.module):
            prepare = cast("Callable[..., Any]", self.module.on_topology)
            fixed = self._guarded(prepare, edge_index, num_nodes)
            return lambda x: self._by_class(self._guarded(fixed, x))
        return self.with_graph(edge_index, num_nodes, {})

    def with_graph(
        self, edge_index: Tensor, num_nodes: int, given: Mapping[Role, object]
    ) -> Callable[[Tensor], Tensor]:
        """Return the map from features to output with the graph fixed, by calling the module.

        Args:
            edge_index: int64 [2, e].
            num_nodes: N.
            given: arguments that are passed as they are instead of being made from the edges;
                weights, float [e], are also put into a `Data`, where the module may ignore them.
        """
        seen = self.seen(edge_index, num_nodes)
        fixed = self._graph_arguments(seen, num_nodes, given)
        # Call the module itself if possible, so that its hooks run.
        function = self.module if self.method == "forward" else getattr(self.module, self.method)

        def run(x: Tensor) -> Tensor:
            if self.x_dtype is not None:
                x = x.to(self.x_dtype) if self.x_dtype.is_floating_point else x.round().long()
            graph = {role: _in_dtype(value, x.dtype) for role, value in fixed.items()}
            positional, keyword = [], {}
            for name, role in self.convention.arguments:
                value = self._features(x, role) if role in FEATURES else graph.get(role)
                if role == "data":
                    data = self.as_data(x, seen.edge_index, graph)
                    value = given.get("data") or self.typed(data)
                if name is None:
                    positional.append(value)
                else:
                    keyword[name] = value
            for name, role in self.convention.optional:
                if role in graph:
                    keyword[name] = graph[role]
            versions = x._version, seen.edge_index._version
            output = self._guarded(function, *positional, **keyword)
            if (x._version, seen.edge_index._version) != versions:
                raise ModelError(
                    f"model {self.name} changes its input in place, which would change the graph "
                    f"of all later cases; call x = x.clone() first, or set inplace=False"
                )
            return self._by_class(output)

        return run

    def _features(self, x: Tensor, role: Role) -> object:
        return x if role == "x" else {self.convention.kinds[0][0]: x}

    def _by_class(self, output: Any) -> Tensor:
        """The output with a column for each class; a wrong one as it is, which is checked later."""
        if self.convention.kinds and isinstance(output, Mapping):
            output = output.get(self.convention.kinds[0][0], output)
        if self.single is None or kind_of_single(output, int(output.numel())) is None:
            return cast(Tensor, output)
        return two_columns(output, self.single)

    def _graph_arguments(
        self, seen: SeenEdges, num_nodes: int, given: Mapping[Role, object]
    ) -> dict[Role, object]:
        roles = self.convention.roles - given.keys()
        source, target = seen.edge_index
        fixed: dict[Role, object] = {"edge_index": seen.edge_index}
        fixed.update(cast("Mapping[Role, object]", seen.attributes))
        fixed |= given
        if "edge_weight" in given:
            fixed["edge_weight"] = seen.weights(cast(Tensor, given["edge_weight"]))
        elif roles & {"edge_weight", "edge_weight_dict"}:  # required
            fixed["edge_weight"] = seen.weights()
        if "batch" in roles or self.batch is not None:
            fixed["batch"] = self._batch_of(num_nodes, source.device)
        if "adj_t" in roles:
            matrix = csr_matrix(target, source, seen.weights(), num_nodes)
            fixed["adj_t"] = with_long_indices(matrix)
        if "adj" in roles:
            fixed["adj"] = self._adjacency(seen, num_nodes)
        return fixed | self._by_kind(fixed)

    def _by_kind(self, fixed: Mapping[Role, object]) -> dict[Role, object]:
        """The arguments that have an entry for each type of edges."""
        kinds, types = self.convention.kinds, fixed.get("edge_type")
        if not kinds or not isinstance(types, Tensor):
            return {}
        result: dict[Role, object] = {}
        for role in self.convention.dict_roles:
            values = fixed.get(BY_KIND[role])
            if isinstance(values, Tensor):
                split = edges_by_kind if role == "edge_index_dict" else by_kind
                result[role] = split(values, types, kinds)
        return result

    def _batch_of(self, num_nodes: int, device: torch.device) -> Tensor:
        """Return int64 [num_nodes]: the graph of each node."""
        if self.batch is not None and self.batch.numel() == num_nodes:
            return self.batch.to(device)
        return torch.zeros(num_nodes, dtype=torch.int64, device=device)

    def typed(self, data: Data) -> Data | HeteroData:
        """Return a graph as the module takes it: one with named types, if it reads these."""
        kinds = self.convention.kinds
        return hetero_data(data, kinds) if kinds and "edge_type" in data else data

    def as_data(self, x: Tensor, edge_index: Tensor, graph: Mapping[Role, object]) -> Data:
        """Return a graph, or graphs, with attributes of edges as PyG has them."""
        of_edges = {str(name): graph[name] for name in EDGE_ATTRIBUTES if name in graph}
        if self.batch is None:
            return Data(x=x, edge_index=edge_index, **of_edges)
        batch = self._batch_of(x.shape[0], x.device)
        ptr = torch.cat([batch.new_zeros(1), torch.bincount(batch).cumsum(0)])
        return Batch(x=x, edge_index=edge_index, batch=batch, ptr=ptr, **of_edges)

    def adjacency(self, edge_index: Tensor, num_nodes: int) -> object:
        """Return the argument `adj`, see `Convention.adj`.

        Raises:
            ModelError: a function of the user raises, or returns something other than matrices.
        """
        return self._adjacency(self.seen(edge_index, num_nodes), num_nodes)

    def _adjacency(self, seen: SeenEdges, num_nodes: int) -> object:
        edge_index, weights = seen.edge_index, seen.weights()
        normalise = self.convention.adj or getattr(self.module, "adj_norm_func", None)
        if not callable(normalise):
            matrix = adjacency_matrix(edge_index, weights, num_nodes, normalise or "raw")
            return matrix.to_dense() if self.convention.dense else matrix
        ends = edge_index.cpu().numpy()
        entries = weights.cpu().numpy()
        plain = sp.csr_matrix((entries, tuple(ends)), shape=(num_nodes, num_nodes))
        return self._to_tensor(self._guarded(normalise, plain), edge_index.device)

    @property
    def adjacency_is_open(self) -> bool:
        """Whether nothing says how the argument `adj` is normalised."""
        own = callable(getattr(self.module, "adj_norm_func", None))
        return "adj" in self.convention.roles and self.convention.adj is None and not own

    def _to_tensor(self, normalised: object, device: torch.device) -> object:
        if isinstance(normalised, (list, tuple)):
            return tuple(self._to_tensor(part, device) for part in normalised)
        if isinstance(normalised, Tensor):
            return normalised.to(device)
        if sp.issparse(normalised):
            coo = sp.coo_matrix(normalised)
            rows, columns = (torch.from_numpy(i.astype(np.int64)) for i in (coo.row, coo.col))
            values = torch.from_numpy(coo.data.astype(np.float32))
            matrix = coo_matrix(rows, columns, values, coo.shape[0]).to(device)
            return matrix.to_dense() if self.convention.dense else matrix
        raise ModelError(
            f"model {self.name}: adj_norm_func returned a {type(normalised).__name__}; it must "
            f"return a scipy sparse matrix or a torch tensor, or a tuple of them"
        )

    def _guarded(self, function: Callable[..., object], *args: object, **kwargs: object) -> Any:
        try:
            plain = plain_calls(training=self.module.training)
            with plain, self.within(), restored_after_forward():
                return function(*args, **kwargs)
        except ModelError:
            raise
        except (Exception, SystemExit) as error:
            shapes = ", ".join(_shape(value) for value in (*args, *kwargs.values()))
            raise ModelError(
                f"model {self.name}: {getattr(function, '__name__', self.method)} raised when "
                f"called as {self.convention} with {shapes}:\n{short_traceback(error)}"
                f"{hint(self.module, error)}"
            ) from error


def _has_on_topology(module: nn.Module) -> bool:
    """Return whether `on_topology` is defined for the `forward` that the module has.

    A class that overrides `forward` alone inherits an `on_topology` of another model.
    """
    for kind in type(module).__mro__:
        if callable(vars(kind).get("on_topology")):
            return True
        if "forward" in vars(kind):
            return False
    return False


def _in_dtype(value: object, dtype: torch.dtype) -> object:
    """Floating-point tensors in the dtype of the features, which a model in float64 needs."""
    if not dtype.is_floating_point:
        return value
    if isinstance(value, tuple):
        return tuple(_in_dtype(item, dtype) for item in value)
    if isinstance(value, dict):
        return {kind: _in_dtype(item, dtype) for kind, item in value.items()}
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


def _shape(value: object) -> str:
    if isinstance(value, (Tensor, sp.spmatrix)):
        return f"{type(value).__name__} {list(value.shape)}"
    return str(value) if isinstance(value, Data) else type(value).__name__
