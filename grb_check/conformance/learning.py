"""What a model's own training may look at."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from grb_check.conformance.model import BrokenPropertyError, CheckedModel, NotApplicableError
from grb_check.datasets.dataset import Dataset
from grb_check.errors import ModelError
from grb_check.training.building import own_training, run_training
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.wrappers import module_of

PART: Final = 150  # training nodes, and as many others, of the graph that is trained on


def label_leakage(model: CheckedModel) -> None:
    """Check that labels outside the training mask do not change what is learned.

    The model's own `fit` is called twice with the same seed on a part of the dataset. The second
    time `data.y` has other labels outside `data.train_mask`, and `validation.y` outside
    `validation.train_mask` and `validation.val_mask`.

    Raises:
        NotApplicableError: there is no `fit`, it fails on the part, or it is not reproducible.
        BrokenPropertyError: the weights are others.
    """
    first = _trained(model, 0)
    different = _difference(first, _trained(model, 1))
    if not different:
        return
    if _difference(first, _trained(model, 0)):
        raise NotApplicableError("two trainings with the same seed give different weights")
    raise BrokenPropertyError(
        f"with other labels outside the training mask, fit learns another {different}", None
    )


def _trained(model: CheckedModel, shift: int) -> nn.Module:
    subject = model.subject
    if not isinstance(model.dataset, Dataset) or subject.finished:
        raise NotApplicableError("it is not trained here on a graph with labels of nodes")
    built = subject.build(model.dataset, 0, model.device)
    fit = own_training(built, model.dataset, subject.name)
    if fit is None:
        raise NotApplicableError("it has no fit of its own, and is shown no other labels")
    view, validation = (each.to(model.device) for each in _views(model.dataset, shift))
    try:
        with isolated_randomness(0):
            run_training(fit, view, lambda: validation, subject.name)
    except ModelError as error:
        raise NotApplicableError(f"fit fails on a part of the graph: {error}") from error
    module = module_of(built)
    assert isinstance(module, nn.Module)  # checked by own_training
    return module


def _views(dataset: Dataset, shift: int) -> tuple[Data, Data]:
    """A part of the graph as seen in training and in validation, with labels moved by `shift`."""
    graph = dataset.graph
    learned = torch.zeros(dataset.num_nodes, dtype=torch.bool)
    learned[dataset.train.cpu()[:PART]] = True
    others = (~learned).nonzero().flatten()[:PART]
    held_out = torch.zeros_like(learned)
    held_out[others[::2]] = True
    nodes = torch.cat([learned.nonzero().flatten(), others]).sort().values
    on_device = nodes.to(graph.edge_index.device)
    edge_index, _ = subgraph(
        on_device, graph.edge_index, relabel_nodes=True, num_nodes=dataset.num_nodes
    )

    def view(known: Tensor) -> Data:
        y = graph.y[on_device].cpu()
        y = torch.where(known[nodes], y, (y + shift) % dataset.num_classes)
        return Data(x=graph.x[on_device].clone(), edge_index=edge_index.clone(), y=y)

    training, validation = view(learned), view(learned | held_out)
    training.train_mask = validation.train_mask = learned[nodes]
    validation.val_mask = held_out[nodes]
    return training, validation


def _difference(first: nn.Module, second: nn.Module) -> str:
    """Name of a tensor of the state dict that differs; empty if there is none."""
    others = second.state_dict()
    for name, value in first.state_dict().items():
        if not torch.equal(value, others[name]):
            return name
    return ""
