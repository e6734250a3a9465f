"""Datasets and trained models that several benchmarks share."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check import datasets
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.views import training_view, validation_view
from grb_check.evaluation.surrogates import Ensemble
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention
from grb_check.victims.wrappers import freeze

HIDDEN: Final = (64, 64, 64)


def load_dataset(spec: str, folders: list[Path]) -> Dataset:
    """Return the dataset of a name or path, see `grb_check.datasets.find`."""
    return datasets.load(datasets.find(spec, datasets.Places(folders=tuple(folders))))


def raw_gcn(num_features: int, num_classes: int) -> nn.Module:
    """Return the package's GCN, whose layers the attacks know."""
    return GCN(num_features, num_classes, HIDDEN)


def untrained(
    make: Callable[[int, int], nn.Module], dataset: Dataset, *, name: str, seed: int
) -> Adapter:
    """Return an untrained model behind the package's calling convention."""
    with isolated_randomness(seed):
        module = make(dataset.num_features, dataset.num_classes)
    return Adapter(module, name, detect_convention(module, "forward", name))


def trained(
    make: Callable[[int, int], nn.Module],
    dataset: Dataset,
    *,
    name: str,
    seed: int,
    epochs: int,
) -> Victim:
    """Return a model trained on the training view, in the state of its best validation epoch.

    Adam with learning rate 0.01, no weight decay, the whole view in each step.
    """
    adapter = untrained(make, dataset, name=name, seed=seed)
    module = adapter.module
    view, wider = training_view(dataset), validation_view(dataset)
    learn, check = _on_view(adapter, view), _on_view(adapter, wider)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    best, state = -1.0, copy.deepcopy(module.state_dict())
    with isolated_randomness(seed):
        for _ in range(epochs):
            module.train()
            optimizer.zero_grad()
            torch.autograd.backward(F.cross_entropy(learn(), view.y))
            optimizer.step()
            module.eval()
            with torch.no_grad():
                right = check().argmax(1) == wider.y
            score = float(right[wider.val_mask].float().mean())
            if score > best:
                best, state = score, copy.deepcopy(module.state_dict())
    module.load_state_dict(state)
    freeze(module)
    return Victim(adapter, dataset.num_classes)


def _on_view(adapter: Adapter, view: Data) -> Callable[[], Tensor]:
    forward = adapter.on_topology(view.edge_index, view.x.shape[0])
    return lambda: forward(view.x)


def predicted(graph: Data, model: Victim | Ensemble) -> Tensor:
    """Return the model's classes int64 [num_nodes] on the clean graph."""
    with torch.no_grad():
        return model(graph.x, graph.edge_index).argmax(1)


def black_box_view(dataset: Dataset, classes: Tensor) -> Data:
    """Return the graph with these classes [num_nodes] as labels of the unlabelled nodes."""
    graph, labelled = dataset.graph, torch.cat([dataset.train, dataset.val])
    known = classes.clone()
    known[labelled] = graph.y[labelled]
    return Data(x=graph.x, edge_index=graph.edge_index, y=known)


def accuracy(model: Victim, graph: Data, targets: Tensor) -> float:
    """Return the percentage of targets that are classified correctly."""
    with torch.no_grad():
        right = model(graph.x, graph.edge_index).argmax(1)[targets] == graph.y[targets]
    return round(100 * float(right.float().mean()), 2)
