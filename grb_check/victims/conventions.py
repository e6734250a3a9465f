"""Calling conventions: the arguments that a module is called with, found from their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from torch import nn

from grb_check.datasets.given_edges import EdgeAttribute, EdgeKind
from grb_check.errors import ModelError, UsageError
from grb_check.victims.adjacency import AdjacencyRule
from grb_check.victims.foreign_forwards import refuse_foreign, was_made_hetero

Role: TypeAlias = Literal[
    "x",
    "edge_index",
    "edge_weight",
    "edge_attr",
    "edge_type",
    "batch",
    "data",
    "adj_t",
    "adj",
    "x_dict",
    "edge_index_dict",
    "edge_weight_dict",
    "edge_attr_dict",
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
    "x_dict": frozenset({"x_dict"}),
    "edge_index_dict": frozenset({"edge_index_dict"}),
    "edge_weight_dict": frozenset({"edge_weight_dict"}),
    "edge_attr_dict": frozenset({"edge_attr_dict"}),
}
# Arguments with an entry for each type of edges or nodes, and the values that are divided so.
BY_KIND: Final[Mapping[Role, Role]] = {
    "x_dict": "x",
    "edge_index_dict": "edge_index",
    "edge_weight_dict": "edge_weight",
    "edge_attr_dict": "edge_attr",
}
_AS_DICTS: Final = {values: dicts for dicts, values in BY_KIND.items()}
FEATURES: Final[tuple[Role, ...]] = ("x", "x_dict")
STRUCTURES: Final[tuple[Role, ...]] = ("edge_index", "adj_t", "adj", "data", "edge_index_dict")
SUPPORTED: Final = (
    "(x, edge_index), (x, edge_index, edge_weight), (x, adj_t), (x, adj), each with batch or "
    "without, (data), and on data with such edges (x, edge_index, edge_attr), "
    "(x, edge_index, edge_type) and (x_dict, edge_index_dict)"
)


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
        dict_names: the optional parameters with an entry for each type of edges, and their roles.
        kinds: the names of the types of edges of the data, where arguments, or `data`, have an
            entry for each.
    """

    arguments: tuple[tuple[str | None, Role], ...]
    weight_name: str | None = None
    batch_name: str | None = None
    attribute_name: str | None = None
    type_name: str | None = None
    adj: AdjacencyRule | Callable[..., object] | None = None
    dense: bool = False
    dict_names: tuple[tuple[str, Role], ...] = ()
    kinds: tuple[EdgeKind, ...] = ()

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
        by_argument = {"edge_weight"} & self.roles or {"edge_weight_dict"} & self.dict_roles
        return self.weight_name is not None or bool(by_argument)

    def takes(self, attribute: EdgeAttribute) -> bool:
        """Whether attributes of edges of this name are among the arguments, or entries of one."""
        if self.roles & {"data", attribute} or self.dict_roles & {f"{attribute}_dict"}:
            return True
        if attribute == "edge_type" and "edge_index_dict" in self.roles:
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
        given = ((name, role) for name, role in names if name is not None)
        return (*given, *self.dict_names)

    @property
    def dict_roles(self) -> frozenset[Role]:
        """Roles of all arguments with an entry for each type of edges or nodes."""
        return (self.roles | {role for _, role in self.dict_names}) & BY_KIND.keys()

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
    refuse_foreign(module, getattr(module, method), required, name, BY_KIND.keys())
    roles = _required_roles(required)
    for p in named:
        role = _role(p.name)
        needed = role in FEATURES or (role in STRUCTURES and not {*roles.values()} & {*STRUCTURES})
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
    if was_made_hetero(module):
        roles = {parameter: _AS_DICTS.get(role, role) for parameter, role in roles.items()}
    arguments = tuple(
        (None if p.name in by_position else p.name, roles[p.name]) for p in named if p.name in roles
    )
    return Convention(
        arguments,
        weights[0] if weights and supported else None,
        batches[0] if batches and "data" not in roles.values() else None,
        _taken_attributes(module, attributes) if "edge_index" in roles.values() else None,
        types[0] if types and "edge_index" in roles.values() else None,
        dict_names=tuple(
            (p.name, role)
            for p in named
            if p.name not in roles and (role := _role(p.name)) in BY_KIND and role is not None
        ),
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
        if not {*roles.values()} & {*FEATURES}:
            roles[name] = "x"
        elif not {*roles.values()} & {*STRUCTURES}:
            roles[name] = "edge_index"
    return roles


def _role(name: str) -> Role | None:
    return next((role for role, names in NAMES.items() if name.lower() in names), None)
