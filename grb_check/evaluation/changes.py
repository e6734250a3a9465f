"""One list of all that the harness changes between what a user gives and what the model gets.

Readers say by a `DataChange` what they repair; the rest follows from the dataset and the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch_geometric.data import Data

from grb_check.datasets.dataset import Dataset
from grb_check.datasets.dtypes import dtype_name
from grb_check.datasets.given_edges import EDGE_ATTRIBUTES, GivenEdges
from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.datasets.source import FeatureRule
from grb_check.errors import count
from grb_check.gradients.rescaled import AnyVictim
from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.probed import Probed, user_adapter

_SCALED: Final[dict[FeatureRule, str]] = {
    "grb": "features normalised as GRB does",
    "rows": "each node's features divided by their sum",
}
_MASKS: Final = ("train_mask", "val_mask", "test_mask")
_KNOWN: Final = frozenset(
    {*("x", "edge_index", "y", "split", "edge_kinds"), *_MASKS, *EDGE_ATTRIBUTES}
)


def changes_of(
    dataset: AnyDataset, repaired: Sequence[str], victim: AnyVictim | None
) -> tuple[str, ...]:
    """Return each change, with a number where there is one.

    Args:
        dataset: that the model is attacked on.
        repaired: what its reader changed.
        victim: the model; None for those of the data alone.
    """
    adapter = user_adapter(victim.adapter) if isinstance(victim, Victim) else None
    data = _of_data(dataset, adapter)
    return (*repaired, *data, *_of_edges(dataset, adapter), *_of_model(victim, adapter))


def edges_of_attacks(given: GivenEdges | None) -> str:
    """Return how attacks change edges that are others than pairs of nodes; empty without any."""
    if given is None:
        return ""
    loops, one_way, more = given.numbers
    texts = [
        f"{count(loops, 'self-loop')}, which no attack touches" if loops else "",
        f"{count(one_way, 'one-way edge')}, where an added edge goes both ways" if one_way else "",
        f"{count(more, 'parallel edge')}, removed together" if more else "",
    ]
    if given.fixed is not None:
        texts.append(
            f"{count(given.fixed.edge_index.shape[1], 'other edge')}, which no attack touches"
        )
    for name, values in given.attributes.items():
        by_ends = name == "edge_type" and given.types is not None
        new = "the commonest at its ends" if by_ends else _shown(values[-1])
        texts.append(f"an added edge has {name} {new}")
    return "; ".join(filter(None, texts))


def _of_data(dataset: AnyDataset, adapter: Adapter | None) -> list[str]:
    result = []
    if dataset.features in _SCALED:
        result.append(_SCALED[dataset.features])
    integers = adapter is not None and adapter.x_dtype == torch.int64
    if dataset.given_dtype != "float32" and not (integers and dataset.given_dtype == "int64"):
        result.append(
            f"features cast from {dataset.given_dtype} to {'int64' if integers else 'float32'}"
        )
    for user_graph in user_graphs(dataset)[:1]:
        others = sorted({*map(str, user_graph.keys())} - _KNOWN)
        if others:
            result.append(f"not passed to models: {', '.join(others)}")
        result += [*_casts(user_graph, dataset.given_edges), *_reshaped(user_graph)]
    return result


def user_graphs(dataset: AnyDataset) -> Sequence[Data]:
    """Return the graph that a user gave, or the test graphs of a set; empty if it was no `Data`."""
    if not isinstance(dataset, Dataset):
        return dataset.user_graphs
    return [] if dataset.user_graph is None else [dataset.user_graph]


def _of_edges(dataset: AnyDataset, adapter: Adapter | None) -> list[str]:
    given = dataset.given_edges
    if given is None:
        return []
    advice = ""
    if given.types is not None and isinstance(dataset, Dataset):
        takes = adapter is not None and adapter.convention.takes("edge_type")
        chosen = "white-box attacks choose it, but not on single targets; " if takes else ""
        advice = (
            f"; {chosen}#type{given.types.commonest} behind the dataset changes edges of that type "
            f"alone"
        )
    result = [f"edges as given ({edges_of_attacks(given)}{advice})"]
    if adapter is not None:
        ignored = [name for name in given.attributes if not adapter.convention.takes(name)]
        result += [f"{name}, which the model does not take, not passed" for name in ignored]
    return result


def _casts(user_graph: Data, given: GivenEdges | None) -> list[str]:
    """Types of classes, masks, edges and their attributes, where they change."""
    types = {"edge_index": torch.int64, "y": torch.int64, **dict.fromkeys(_MASKS, torch.bool)}
    if given is not None:
        types |= {name: values.dtype for name, values in given.attributes.items()}
    names = {
        name: (dtype_name(user_graph[name].dtype), dtype_name(dtype))
        for name, dtype in types.items()
        if isinstance(user_graph.get(name), torch.Tensor)
    }
    return [
        f"{name} cast from {before} to {after}"
        for name, (before, after) in names.items()
        if before != after
    ]


def _reshaped(user_graph: Data) -> list[str]:
    """What was given as a table and is one number for each node, graph or edge."""
    tables = {
        name: user_graph[name].shape[1]
        for name in ("y", "edge_weight", "edge_type")
        if isinstance(user_graph.get(name), torch.Tensor) and user_graph[name].dim() == 2
    }
    return [
        f"{name} read from one column" if width == 1 else f"{name} read from one-hot rows"
        for name, width in tables.items()
    ]


def _of_model(victim: AnyVictim | None, adapter: Adapter | None) -> list[str]:
    if victim is None or adapter is None:
        return []
    rule, texts = adapter.convention.adj, []
    if isinstance(rule, str) and "adj" in adapter.convention.roles:
        texts.append(f"adj made by the rule {rule!r}")
    if adapter.convention.dense:
        texts.append("adj made dense")
    if adapter.single is not None:
        texts.append("its one output made those of two classes")
    if isinstance(victim, Victim) and victim.probabilities:
        texts.append("the logarithm of its probabilities taken")
    if isinstance(victim.module, Probed):
        texts.append("a linear probe fitted to its embeddings")
    return texts


def _shown(value: torch.Tensor) -> str:
    numbers = [f"{number:.4g}" for number in value.flatten().tolist()]
    if value.dim() == 0:
        return numbers[0]
    return f"[{', '.join(numbers[:6])}{', ...' if len(numbers) > 6 else ''}]"
