"""For each property the model of its page in the documentation that breaks it; and sound ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from code_blocks import blocks_of
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import SAGEConv, global_add_pool

from grb_check import Trained
from grb_check.conformance.properties import PROPERTIES

PAGES: Final = Path(__file__).parents[2] / "docs" / "reference" / "properties"


class Sound(nn.Module):
    """Two layers with a mean over neighbours."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = SAGEConv(num_features, 8)
        self.norm = nn.BatchNorm1d(8)
        self.second = SAGEConv(8, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.dropout(self.norm(self.first(x, edge_index)), training=self.training)
        return self.second(h, edge_index)


class SoundOfGraphs(nn.Module):
    """Sums a linear map over the nodes of each graph."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.only = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return global_add_pool(self.only(x), batch)


def trained(kind: type[nn.Module]) -> Callable[..., object]:
    """A factory whose modules are used as they are."""

    def factory(num_features: int, num_classes: int) -> Trained:
        torch.manual_seed(0)
        return Trained(kind(num_features, num_classes).eval())

    return factory


def _of_pages() -> dict[str, Callable[..., Any]]:
    """Factories by property; those of classes are not trained, which takes time."""
    models = {}
    for name in PROPERTIES:
        for block in blocks_of(PAGES / f"{name}.md"):
            if block.use == "python":
                namespace: dict[str, Any] = {}
                exec(compile(block.text, name, "exec"), namespace)
                models[name] = namespace.get("build") or trained(namespace["Model"])
    return models


BROKEN: Final = _of_pages()
