"""The harness's own models: the attacker's surrogates, and the references of the default limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from grb_check.attacks.names import SURROGATES, check_surrogates
from grb_check.attacks.protocol import PairGradients, mean_of
from grb_check.cases.outcomes import NO_GRAPH
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset
from grb_check.datasets.views import training_view, validation_view
from grb_check.errors import DataError, UsageError
from grb_check.gradients.rescaled import AnyVictim, Rescaled, Standardised, standardised
from grb_check.gradients.victim import Victim
from grb_check.models.published import (
    GraphModel,
    architecture,
    graph_settings,
    hyper_parameters,
)
from grb_check.models.reference.gat import gat
from grb_check.models.reference.gcn import gcn, gcn_ln
from grb_check.models.reference.gin import gin
from grb_check.models.reference.graph_gcn import graph_gcn
from grb_check.models.reference.graph_gin import graph_gin
from grb_check.models.reference.mlp import mlp
from grb_check.models.reference.sage import sage
from grb_check.models.zoo import known
from grb_check.training.nodes import PROTOCOL, TrainingSettings, train
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention
from grb_check.victims.wrappers import SelfTrained, freeze

# Undefended models that a default limit is made of, and one that ignores the graph, beside it.
REFERENCES: Final = ("gcn", NO_GRAPH, "gat", "sage", "gin")
LR: Final = 0.01  # of a kind without a row in GRB's tables
FIRST: Final = REFERENCES[:2]  # that every case is compared with
GRAPH_REFERENCES: Final = ("gcn", "gin")  # all that exist for sets of graphs
# PyG's GAT keeps [2 * edges, heads * width] for each layer: 0.5 GiB at this size and GRB's widths.
MAX_EDGES: Final = 250_000


@dataclass(frozen=True)
class _Kind:
    """A kind of model: its name in GRB's tables, if it has one, and factories for nodes and graphs.

    The factories are rows of `zoo`, which has their versions.
    """

    title: str
    factory: Callable[[int, int, str], nn.Module]
    of_graphs: Callable[[int, int, str], SelfTrained] | None


# One for each of `attacks.names.SURROGATES`, and for each reference.
_KINDS: Final[Mapping[str, _Kind]] = {
    "gcn": _Kind("GCN", gcn, graph_gcn),
    "gcn_ln": _Kind("GCN+LN", gcn_ln, None),
    "gin": _Kind("GIN", gin, graph_gin),
    "gat": _Kind("GAT", gat, None),
    "sage": _Kind("SAGE", sage, None),
    NO_GRAPH: _Kind("", mlp, None),
}


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Several surrogates as one model: its output is the mean of their log-probabilities.

    Attacks with an objective of their own average that over `members` instead.
    """

    members: tuple[AnyVictim, ...]

    @property
    def takes_edge_weight(self) -> bool:
        """Whether all members can be differentiated with respect to edge weights."""
        return all(member.takes_edge_weight for member in self.members)

    def on_graphs(self, batch: Tensor, nodes: Tensor | None = None) -> Ensemble:
        """The same for other graphs; `batch` int64 [N], ascending, is the graph of each node."""
        members = cast(tuple[Victim, ...], self.members)  # those of sets have no other units
        return Ensemble(tuple(member.on_graphs(batch, nodes) for member in members))

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Log-probabilities float [num_nodes, num_classes], up to a constant in each row."""
        return _mean_log_softmax([member(x, edge_index, edge_weight) for member in self.members])

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        """A function from features of injected nodes to outputs of targets, [t, num_classes]."""
        maps = [member.with_injected(x, edge_index, count, targets) for member in self.members]
        return lambda injected: _mean_log_softmax([logits(injected) for logits in maps])

    def with_links(
        self, x: Tensor, edge_index: Tensor, count: int, candidates: Tensor, targets: Tensor
    ) -> Callable[[Tensor, Tensor], Tensor] | None:
        """A function from features and link weights to the same; None if a member has none."""
        result = [
            member.with_links(x, edge_index, count, candidates, targets) for member in self.members
        ]
        maps = [logits for logits in result if logits is not None]
        if len(maps) < len(result):
            return None
        return lambda new, weights: _mean_log_softmax([logits(new, weights) for logits in maps])

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        """A function from weights of pairs to the same; None if a member has none."""
        result = [member.with_pairs(x, edge_index, pairs, targets) for member in self.members]
        maps = [logits for logits in result if logits is not None]
        if len(maps) < len(result):
            return None
        return lambda weights: _mean_log_softmax([logits(weights) for logits in maps])

    def pair_gradients(
        self,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> PairGradients | None:
        """The gradient of the members' mean objective with respect to weights of all node pairs."""
        result = [
            member.pair_gradients(x, edge_index, targets, objective, edge_weight)
            for member in self.members
        ]
        parts = [gradients for gradients in result if gradients is not None]
        return mean_of(parts) if len(parts) == len(result) else None


def kinds_on(dataset: AnyDataset) -> tuple[str, ...]:
    """Surrogates that the dataset can have: a set of graphs has no `gcn_ln`."""
    of_graphs = isinstance(dataset, GraphDataset)
    return tuple(name for name in SURROGATES if not of_graphs or _KINDS[name].of_graphs is not None)


def references_on(dataset: AnyDataset) -> tuple[str, ...]:
    """Kinds of the references on a dataset, "gcn" first; `FIRST` alone above `MAX_EDGES`."""
    if isinstance(dataset, GraphDataset):
        return GRAPH_REFERENCES
    return REFERENCES if dataset.num_edges <= MAX_EDGES else FIRST


def first_on(dataset: AnyDataset) -> tuple[str, ...]:
    """Kinds of those that every case is compared with; others are asked only if it may fail."""
    return references_on(dataset)[: 1 if isinstance(dataset, GraphDataset) else len(FIRST)]


def kinds_for(attack: object) -> tuple[str, ...]:
    """Return the `surrogates` of an attack; the GCN if it has no such setting.

    Raises:
        UsageError: no name, a duplicate, or an unknown one.
    """
    kinds: tuple[str, ...] = getattr(attack, "surrogates", ("gcn",))
    check_surrogates(kinds)
    return kinds


def check_kinds(attack: object, dataset: AnyDataset) -> None:
    """Check that the dataset can have the surrogates of an attack, before anything is trained.

    Raises:
        UsageError: see `kinds_for`; or there is no surrogate of the kind for sets of graphs.
    """
    for kind in kinds_for(attack):
        if isinstance(dataset, GraphDataset):
            _factory_of_graphs(dataset, kind)


def surrogate(
    dataset: AnyDataset, *, seed: int, device: torch.device, kind: str = "gcn"
) -> AnyVictim:
    """Train a model with the published hyper-parameters.

    Args:
        dataset: on the device.
        seed: of the training.
        device: to train on.
        kind: a surrogate or a reference.

    Raises:
        UsageError: there is no surrogate of the kind for sets of graphs.
    """
    with isolated_randomness(seed):
        if isinstance(dataset, GraphDataset):
            built = _of_graphs(dataset, kind)
            module = cast(nn.Module, built.module).to(device)
            views = (training_view(dataset).to(device), validation_view(dataset).to(device))
            if (units := _units(dataset)) is not None:
                for view in views:
                    view.x = units(view.x)
            built.fit(*views)
        else:
            module = _untrained(dataset, kind).to(device)
            settings, seen = _settings(dataset, kind), _as_seen(dataset)
            train(_adapter(module, kind), seen, settings, seed=seed, device=device)
    freeze(module)
    return _victim(module, kind, dataset)


def recipe(dataset: AnyDataset, kind: str) -> str:
    """Everything besides dataset, seed and rounding that determines a model, as stable text."""
    title = _KINDS[kind].title
    if isinstance(dataset, GraphDataset):
        _factory_of_graphs(dataset, kind)
        settings = graph_settings(cast(GraphModel, title), dataset.name)
        result = _described(f"graph_{kind}", asdict(settings))
    else:
        shape = architecture(title, dataset.name) if title else {}
        result = _described(kind, shape | asdict(_settings(dataset, kind)))
    if isinstance(dataset, Dataset) and dataset.recall is not None:
        result += ", chosen by average precision"
    return f"{result}, standardised columns" if _units(dataset) is not None else result


def _described(factory: str, settings: Mapping[str, object]) -> str:
    result = known(f"grb_check.models:{factory}")
    assert result is not None  # a test looks at all kinds
    words = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{result.described} ({words}), training v{PROTOCOL}"


def to_arrays(victim: AnyVictim) -> dict[str, NDArray[Any]]:
    """The parameters and buffers of a surrogate by name."""
    return {key: value.cpu().numpy() for key, value in victim.module.state_dict().items()}


def from_arrays(
    dataset: AnyDataset, kind: str, arrays: Mapping[str, NDArray[Any]], device: torch.device
) -> AnyVictim:
    """Rebuild the surrogate whose arrays `to_arrays` returned.

    Raises:
        DataError: names, shapes or types differ from those of the dataset's surrogate, or a value
            is not finite.
    """
    with isolated_randomness(0):
        module = _untrained(dataset, kind)
    stored = f"stored {_KINDS[kind].title}"
    expected = {key: value.numpy() for key, value in module.state_dict().items()}
    if set(arrays) != set(expected):
        raise DataError(f"{stored}: expected arrays {sorted(expected)}, got {sorted(arrays)}")
    for key, value in expected.items():
        array = arrays[key]
        if array.shape != value.shape or array.dtype != value.dtype:
            raise DataError(
                f"{stored}: {key} is {array.dtype} {list(array.shape)}, expected {value.dtype} "
                f"{list(value.shape)}"
            )
        if not np.isfinite(array).all():
            raise DataError(f"{stored}: {key} holds values that are not finite")
    module.load_state_dict({key: torch.from_numpy(np.array(a)) for key, a in arrays.items()})
    freeze(module)
    return _victim(module.to(device), kind, dataset)


def _victim(module: nn.Module, kind: str, dataset: AnyDataset) -> AnyVictim:
    adapter = _adapter(module, kind)
    if isinstance(dataset, GraphDataset):
        adapter = replace(adapter, batch=dataset.graph.batch)
    result, units = Victim(adapter, dataset.num_classes), _units(dataset)
    return result if units is None else Rescaled(result, units)


def _units(dataset: AnyDataset) -> Standardised | None:
    """The units in which the harness's models see features that are used as given.

    None for one-hot features of graphs, of which every column has the same.
    """
    if dataset.features != "given":
        return None
    if isinstance(dataset, GraphDataset):
        x = dataset.training_graphs.x.to(dataset.graph.x.device)
        return None if dataset.is_one_hot else standardised(x)
    return standardised(dataset.graph.x[dataset.train.to(dataset.graph.x.device)])


def _as_seen(dataset: Dataset) -> Dataset:
    """The dataset as the harness's models see it: pairs of nodes, standardised columns."""
    dataset = replace(dataset, given_edges=None, given_dtype="float32")
    units = _units(dataset)
    if units is None:
        return dataset
    graph = dataset.graph.clone()
    graph.x = units(graph.x)
    return replace(dataset, graph=graph)


def _factory_of_graphs(dataset: GraphDataset, kind: str) -> Callable[[int, int, str], SelfTrained]:
    factory = _KINDS[kind].of_graphs
    if factory is None:
        raise UsageError(
            f"surrogate {kind!r} classifies nodes, and {dataset.name} is a set of graphs; "
            f"allowed: {', '.join(kinds_on(dataset))}"
        )
    return factory


def _of_graphs(dataset: GraphDataset, kind: str) -> SelfTrained:
    factory = _factory_of_graphs(dataset, kind)
    return factory(dataset.num_features, dataset.num_classes, dataset.name)


def _untrained(dataset: AnyDataset, kind: str) -> nn.Module:
    if isinstance(dataset, GraphDataset):
        return cast(nn.Module, _of_graphs(dataset, kind).module)
    return _KINDS[kind].factory(dataset.num_features, dataset.num_classes, dataset.name)


def _adapter(module: nn.Module, kind: str) -> Adapter:
    name = f"reference {_KINDS[kind].title or kind}"
    return Adapter(module, name, detect_convention(module, "forward", name))


def _settings(dataset: Dataset, kind: str) -> TrainingSettings:
    title = _KINDS[kind].title
    return TrainingSettings(lr=hyper_parameters(title, dataset.name)["lr"] if title else LR)


def _mean_log_softmax(logits: Sequence[Tensor]) -> Tensor:
    return torch.stack([output.log_softmax(dim=1) for output in logits]).mean(dim=0)
