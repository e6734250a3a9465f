"""The check that a model that comes trained answers here as on the graph that the user gave.

The harness calls modules with features and edges alone, of the types that it uses. A module that
gets more from the user's own code, or something else, is another model here: its figures would not
be its own.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, cast

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.dtypes import dtype_name
from grb_check.datasets.given_edges import EDGE_ATTRIBUTES
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.errors import ModelError
from grb_check.evaluation.changes import user_graphs
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import Role
from grb_check.victims.probed import Probed, user_adapter

TOLERATED: Final = 0.01  # share of predictions, and accuracy on the test nodes
_PASSED: Final = frozenset({"x", "edge_index", "batch", "ptr", *EDGE_ATTRIBUTES})
_UNEXPLAINED: Final = (
    "no change that is undone alone explains it; its forward may depend on the order of the edges, "
    "which must not matter"
)


def check_identity(model: TrainedModel, dataset: AnyDataset, seed: int) -> None:
    """Check that a model's predictions are those of its module in the user's own form.

    The module is called once on the edges and all attributes of the user's graph, with features of
    their type; if it fails then, or takes an adjacency matrix, there is nothing to compare.

    Args:
        model: with its predictions on the dataset.
        dataset: on the device; nothing is checked if a user gave no graph, or graphs, of PyG.
        seed: of the global random states in the call that gave these predictions.

    Raises:
        ModelError: more than `TOLERATED` differ; names the change that explains it.
    """
    victim, given = model.victim, _as_the_user_gave(dataset)
    if given is None or not isinstance(victim, Victim):
        return
    forms = _forms(victim.adapter, dataset, given, seed)
    expected = forms.pop("", None)
    if expected is None:
        return
    nodes, truth = dataset.tested.cpu(), dataset.graph.y.cpu()
    share = float((model.predicted != expected).float().mean())
    before, after = (
        float((predicted[nodes] == truth[nodes]).float().mean())
        for predicted in (expected, model.predicted)
    )
    if share <= TOLERATED and abs(before - after) <= TOLERATED:
        return
    agreeing = {"": int((model.predicted == expected).sum())}
    agreeing |= {change: int((answers == expected).sum()) for change, answers in forms.items()}
    things = f"{victim.adapter.one_for}s"
    best = max(agreeing, key=lambda change: agreeing[change])  # the first of equal ones
    raise ModelError(
        f"model {model.victim.name} comes trained, and predicts {share:.1%} of the {things} "
        f"otherwise than when it is called on what was given: {after:.1%} instead of "
        f"{before:.1%} of the test {things} are right; {best or _UNEXPLAINED}"
    )


def _as_the_user_gave(dataset: AnyDataset) -> Data | None:
    """The graph, or the test graphs, with all attributes and features of the user's type.

    None if there is no such, or its graphs do not fit side by side.
    """
    if not user_graphs(dataset):
        return None
    x, dtype = dataset.graph.x, user_graphs(dataset)[0].x.dtype
    typed = x.to(dtype) if dtype.is_floating_point else x.round().to(dtype)
    if isinstance(dataset, Dataset):
        return _with_features(dataset.user_graph, typed)
    parts = typed.split(torch.bincount(dataset.graph.batch).tolist())
    with suppress(Exception):  # whatever the user's attributes are
        graphs = map(_with_features, dataset.user_graphs, parts)
        return Batch.from_data_list([*graphs])
    return None


def _with_features(user_graph: Data, x: Tensor) -> Data:
    result = copy.copy(user_graph)
    result.x = x
    return result


def _forms(adapter: Adapter, dataset: AnyDataset, given: Data, seed: int) -> dict[str, Tensor]:
    """Predictions of the module in the user's form, under "", and with each change undone alone.

    A form in which the module fails is left out.
    """
    x, edges = dataset.graph.x, dataset.graph.edge_index
    given = given.to(x.device)
    inner = user_adapter(adapter)
    if inner.convention.roles & {"adj", "adj_t"}:
        return {}
    plain = replace(inner, given_edges=None, x_dtype=None, batch=adapter.batch)
    seen = inner.seen(edges, x.shape[0])
    called = plain.as_data(x, seen.edge_index, cast("Mapping[Role, Tensor]", seen.attributes))
    tried = {"": given}
    for name in sorted({*given.keys()} - _PASSED):
        more = copy.copy(called)
        more[name] = given[name]
        tried[
            f"its forward reads data.{name}, which attacked graphs do not have; put what it needs "
            f"into x, or into the module"
        ] = more
    if given.x.dtype != x.dtype:
        tried[
            f"x is {dtype_name(given.x.dtype)} in the data, and was passed as "
            f"{dtype_name(inner.x_dtype or x.dtype)}; give it as float32, and convert it in forward"
        ] = _with_features(called, given.x)
    result = {}
    for change, data in tried.items():
        with suppress(ModelError):
            result[change] = _predicted(plain, adapter, data, seed)
    return result


def _predicted(plain: Adapter, adapter: Adapter, data: Data, seed: int) -> Tensor:
    """Classes int64 [N] of the module in a call with these features, edges and attributes."""
    given: dict[Role, object] = {"data": plain.typed(data)}
    for role in EDGE_ATTRIBUTES:
        if role in data:
            given[role] = data[role]
    with isolated_randomness(seed), torch.no_grad():
        output = plain.with_graph(data.edge_index, int(data.x.shape[0]), given)(data.x)
        if isinstance(adapter.module, Probed):
            output = adapter.module.linear(output)
        return output.argmax(dim=1).cpu()
