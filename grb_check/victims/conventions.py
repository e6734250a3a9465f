"""Calling conventions: modules of any usual signature behind one interface."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from grb_check.datasets.given_edges import EDGE_ATTRIBUTES, EdgeAttribute, GivenEdges, SeenEdges
from grb_check.errors import ModelError, UsageError
from grb_check.user_code.calls import restored_after_forward, short_traceback
from grb_check.victims.adjacency import AdjacencyRule, adjacency_matrix
from grb_check.victims.foreign_forwards import refuse_foreign
from grb_check.victims.receptive_field import is_patched
from grb_check.victims.single_output import SingleOutput, kind_of_single, two_columns
from grb_check.victims.sparse import coo_matrix, csr_matrix, with_long_indices

# In messages of torch about operands of different types.
_OF_DTYPES: Final = ("dtype", "Double", "Half", "BFloat16", "scalar type")
FIXED_SIZE: Final = (
    "; a model must answer for graphs of any number of nodes: it is trained on a part of the "
    "graph, and attacks add nodes, so that an embedding of node ids has no row for some"
)
Role: TypeAlias = Literal[
    "x", "edge_index", "edge_weight", "edge_attr", "edge_type", "batch", "data", "adj_t", "adj"
]
# Parameter names, in lower case, for each role; the role's own name is one of them.
NAMES: Final[Mapping[Role, frozenset[str]]] = {
    "x": frozenset(
        {"x", "feat", "feats", "features", "node_feats", "node_features", "h", "input", "inputs"}
    ),
    "edge_index": frozenset({"edge_index", "edge_indices", "edges", "edge_list"}),
    "edge_weight": frozenset({"edge_weight", "edge_weights"}),
    "edge_attr": frozenset({"edge_attr", "edge_attrs", "edge_feats", "edge_features"}),
    "edge_type": frozenset({"edge_type", "edge_types", "etype", "etypes", "rel_type", "relations"}),
    "batch": frozenset({"batch"}),
    "data": frozenset({"data", "graph"}),
    "adj_t": frozenset({"adj_t"}),
    "adj": frozenset({"adj", "adjacency", "adj_matrix", "a"}),
}
STRUCTURES: Final[tuple[Role, ...]] = ("edge_index", "adj_t", "adj", "data")
SUPPORTED: Final = (
    "(x, edge_index), (x, edge_index, edge_weight), (x, adj_t), (x, adj), each with batch or "
    "without, (data), and on data with such edges (x, edge_index, edge_attr) and "
    "(x, edge_index, edge_type)"
)


def hint(module: nn.Module, error: BaseException) -> str:
    """Return advice on an error of a module; empty without any."""
    text = str(error)
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return ""
    dtypes = {parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()}
    others = sorted(str(dtype).removeprefix("torch.") for dtype in dtypes - {torch.float32})
    if others and any(word in text for word in _OF_DTYPES):
        return (
            f"\nits parameters are {' and '.join(others)}, and features are float32: call "
            f"module.float()"
        )
    if "cuda" in text.lower():
        return "\nleave the device to the harness: no .cuda(), and new tensors on x.device"
    embeds = any(isinstance(submodule, nn.Embedding) for submodule in module.modules())
    if embeds and isinstance(error, (RuntimeError, IndexError)):
        return "\n" + FIXED_SIZE.removeprefix("; ")
    return ""


@dataclass(frozen=True)
class Convention:
    """The arguments that a module is called with.

    Attributes:
        arguments: (parameter name, role) in the order of the call; the name is None for an argument
            passed by position.
        weight_name: the optional parameter for edge weights, or None.
        batch_name: the optional parameter for the graph of each node, or None.
        attribute_name: the optional parameter for attributes of edges, or None.
        type_name: the optional parameter for types of edges, or None.
        adj: how the argument `adj` is made of the adjacency: by a rule, or by a function of it as a
            scipy sparse matrix; None for `module.adj_norm_func`, or the adjacency as it is.
        dense: whether `adj` is a dense matrix.
    """

    arguments: tuple[tuple[str | None, Role], ...]
    weight_name: str | None = None
    batch_name: str | None = None
    attribute_name: str | None = None
    type_name: str | None = None
    adj: AdjacencyRule | Callable[..., object] | None = None
    dense: bool = False

    def __str__(self) -> str:
        roles = ", ".join(role for _, role in self.arguments)
        return f"({roles}{', edge_weight' if self.weight_name else ''})"

    @property
    def roles(self) -> frozenset[Role]:
        """Roles of all arguments."""
        return frozenset(role for _, role in self.arguments)

    @property
    def takes_edge_weight(self) -> bool:
        """Whether weights of edges can be given as an argument."""
        return self.weight_name is not None or "edge_weight" in self.roles

    def takes(self, attribute: EdgeAttribute) -> bool:
        """Whether attributes of edges of this name are among the arguments, or entries of one."""
        if "data" in self.roles or attribute in self.roles:
            return True
        if attribute == "edge_weight":
            return self.weight_name is not None or bool(self.roles & {"adj", "adj_t"})
        return (self.attribute_name if attribute == "edge_attr" else self.type_name) is not None

    @property
    def optional(self) -> tuple[tuple[str, Role], ...]:
        """Optional parameters and their roles, which are passed where there is a value."""
        names: tuple[tuple[str | None, Role], ...] = (
            (self.weight_name, "edge_weight"),
            (self.attribute_name, "edge_attr"),
            (self.type_name, "edge_type"),
            (self.batch_name, "batch"),
        )
        return tuple((name, role) for name, role in names if name is not None)

    @property
    def takes_batch(self) -> bool:
        """Whether the graph of each node is among the arguments."""
        return self.batch_name is not None or bool(self.roles & {"batch", "data"})


PLAIN: Final = Convention(((None, "x"), (None, "edge_index")))


def parse_convention(text: str) -> Convention:
    """Return the convention that a user wrote as `"x, adj_t"`; arguments are passed by position.

    Raises:
        UsageError: a name is not a role or is repeated, or there is no argument for the graph.
    """
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in NAMES]
    if unknown or len(set(names)) < len(names) or not {*names} & {*STRUCTURES}:
        raise UsageError(
            f"forward={text!r} is not a calling convention; give a list such as 'x, adj_t' of "
            f"{', '.join(NAMES)}, each at most once, with one of {', '.join(STRUCTURES)} among them"
        )
    return Convention(tuple((None, cast(Role, name)) for name in names))


def detect_convention(module: nn.Module, method: str, name: str) -> Convention:
    """Return the convention that the parameter names of a method imply.

    It is `(x, edge_index)` for a method without a signature, or with `*args` and `**kwargs` only,
    unless the module is around another one, whose convention counts then.

    Raises:
        ModelError: a required parameter has a name from which no role follows.
    """
    try:
        parameters = list(inspect.signature(getattr(module, method)).parameters.values())
    except (TypeError, ValueError):
        return PLAIN
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [p for p in parameters if p.kind not in variadic]
    required = [p.name for p in named if p.default is p.empty]
    if not required and len(named) < len(parameters):
        inner = getattr(module, "module", None)  # of AveragedModel, DataParallel and their kind
        return detect_convention(inner, method, name) if isinstance(inner, nn.Module) else PLAIN
    refuse_foreign(module, getattr(module, method), required, name)
    roles = _required_roles(required)
    for p in named:
        role = _role(p.name)
        needed = role == "x" or (role in STRUCTURES and not {*roles.values()} & {*STRUCTURES})
        if role is not None and p.name not in required and needed and role not in roles.values():
            roles[p.name] = role
    stuck = [parameter for parameter in required if parameter not in roles]
    if stuck or not roles:
        shown = ", ".join(p.name for p in parameters)
        raise ModelError(
            f"model {name}: {method}({shown}) cannot be called: no argument is known for "
            f"{', '.join(stuck) or 'features and edges'}; supported are {SUPPORTED}; name the "
            f"arguments with grb_check.wrap(module, forward='x, edge_index'), or give the other "
            f"parameters defaults"
        )
    weights, batches, attributes, types = (
        [p.name for p in named if p.name not in roles and _role(p.name) == role]
        for role in ("edge_weight", "batch", "edge_attr", "edge_type")
    )
    # PyG's BasicGNN has the parameter in every forward, even if its layers ignore it.
    supported = "edge_index" in roles.values() and getattr(module, "supports_edge_weight", True)
    by_position = {p.name for p in named if p.kind is p.POSITIONAL_ONLY}
    arguments = tuple(
        (None if p.name in by_position else p.name, roles[p.name]) for p in named if p.name in roles
    )
    return Convention(
        arguments,
        weights[0] if weights and supported else None,
        batches[0] if batches and "data" not in roles.values() else None,
        _taken_attributes(module, attributes) if "edge_index" in roles.values() else None,
        types[0] if types and "edge_index" in roles.values() else None,
    )


def _taken_attributes(module: nn.Module, names: list[str]) -> str | None:
    """Return the parameter for attributes of edges; PyG's BasicGNN has it even if it ignores it."""
    return names[0] if names and getattr(module, "supports_edge_attr", True) else None


def _required_roles(required: list[str]) -> dict[str, Role]:
    """Return the roles of required parameters: by name, then of other names by their order."""
    if len(required) == 1 and _role(required[0]) in (None, "batch"):
        return {required[0]: "data"}
    roles: dict[str, Role] = {}
    for name in required:
        role = _role(name)
        if role is not None and role not in roles.values():
            roles[name] = role
    for name in required:
        if name in roles or "data" in roles.values():
            continue
        if "x" not in roles.values():
            roles[name] = "x"
        elif not {*roles.values()} & {*STRUCTURES}:
            roles[name] = "edge_index"
    return roles


def _role(name: str) -> Role | None:
    return next((role for role, names in NAMES.items() if name.lower() in names), None)


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
                value = x if role == "x" else graph.get(role)
                if role == "data":
                    value = given.get("data") or self._data(x, seen.edge_index, graph)
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

    def _by_class(self, output: Any) -> Tensor:
        """The output with a column for each class; a wrong one as it is, which is checked later."""
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
        elif "edge_weight" in roles:
            fixed["edge_weight"] = seen.weights()
        if "batch" in roles or self.batch is not None:
            fixed["batch"] = self._batch_of(num_nodes, source.device)
        if "adj_t" in roles:
            matrix = csr_matrix(target, source, seen.weights(), num_nodes)
            fixed["adj_t"] = with_long_indices(matrix)
        if "adj" in roles:
            fixed["adj"] = self._adjacency(seen, num_nodes)
        return fixed

    def _batch_of(self, num_nodes: int, device: torch.device) -> Tensor:
        """Return int64 [num_nodes]: the graph of each node."""
        if self.batch is not None and self.batch.numel() == num_nodes:
            return self.batch.to(device)
        return torch.zeros(num_nodes, dtype=torch.int64, device=device)

    def _data(self, x: Tensor, edge_index: Tensor, graph: Mapping[Role, object]) -> Data:
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
            with _uncompiled(), self.within(), restored_after_forward():
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


def _uncompiled() -> AbstractContextManager[object]:
    """Let compiled modules and functions run as they are written, in which attacks see the edges.

    Their compiled backward passes also refuse to be run twice. Older torch has no such switch.
    """
    switch = getattr(torch.compiler, "set_stance", None)  # since 2.6
    return nullcontext() if switch is None else switch("force_eager")


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
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


def _shape(value: object) -> str:
    if isinstance(value, (Tensor, sp.spmatrix)):
        return f"{type(value).__name__} {list(value.shape)}"
    return str(value) if isinstance(value, Data) else type(value).__name__
