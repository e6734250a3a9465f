"""For each property a model that breaks it, and a sound one beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv, global_add_pool

from grb_check import SelfTrained, Trained

SMALL = 100  # nodes: fewer than the dataset has


class Sound(nn.Module):
    """Two layers with a mean over neighbours; others change one thing about it."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = SAGEConv(num_features, 8)
        self.norm = nn.BatchNorm1d(8)
        self.second = SAGEConv(8, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.dropout(self.norm(self.first(x, edge_index)), training=self.training)
        return self.second(h, edge_index)


class UsesNodeIds(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        return out + torch.arange(len(x)).unsqueeze(1) % 2


class UsesFirstEdge(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        return out + x[edge_index[0, :1]].sum() if edge_index.numel() else out


class Remembers(Sound):
    """The sum of the features of the last graph of another size."""

    size, last = 0, 0.0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index) + self.last
        if len(x) != self.size and len(x) < 20:
            self.size, self.last = len(x), float(len(x))
        return out


class Random(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) + 0.1 * torch.rand(len(x), 1)


class ChangesInput(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x.data.clamp_(max=1.0)  # without a new version of the tensor
        return super().forward(x, edge_index)


class WithoutGradient(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward((x > 0).float(), edge_index)


class OfOneSize(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if len(x) in (5, 6):
            raise ValueError("the attention was built for other sizes")
        return super().forward(x, edge_index)


class NormalisesOverNodes(Sound):
    """The standard deviation over a single node is not a number."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        return out + 0 * out.std(dim=0)


class LastEdge(Sound):
    """Needs one edge."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) + 0 * edge_index[0, -1]


class DividesByDegree(Sound):
    """Of graphs smaller than the dataset, so that it can be called on that."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if len(x) > SMALL:
            return super().forward(x, edge_index)
        degree = torch.zeros(len(x)).index_add(0, edge_index[0], torch.ones(edge_index.shape[1]))
        return super().forward(x, edge_index) / degree.unsqueeze(1)


class FewNeighbours(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if len(x) <= SMALL and edge_index.numel() and edge_index[0].bincount().max() > 16:
            raise ValueError("at most 16 neighbours")
        return super().forward(x, edge_index)


class WithoutLoops(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) / (edge_index[0] != edge_index[1]).all()


class WithoutDuplicates(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if edge_index.unique(dim=1).shape != edge_index.shape:
            raise ValueError("duplicate edges")
        return super().forward(x, edge_index)


class SeesMean(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) + x.mean()


class RandomWidth(Sound):
    """In training mode it does another thing than dropout."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        return 2 * out if self.training else out


class RoundsFloats(Sound):
    """Of one dtype alone."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        return out if out.dtype == torch.float64 else (8 * out).round() / 8


class ReadsMemory(Sound):
    """As kernels do that expect contiguous tensors."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        flat = x.as_strided((x.numel(),), (1,))
        return super().forward(flat.view(x.shape), edge_index)


class MistakesInt32(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if edge_index.dtype == torch.int32:
            edge_index = edge_index.long().flip(0)[:, :1]
        return super().forward(x, edge_index)


class Weighted(nn.Module):
    """Without weights it takes halves."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.only = GCNConv(num_features, num_classes, normalize=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if edge_weight is None:
            edge_weight = torch.full((edge_index.shape[1],), 0.5, dtype=x.dtype)
        return self.only(x, edge_index, edge_weight)


class KeepsScale(Sound):
    """What training learns is not a parameter: a state dict lacks it."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.scale = 1.0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.scale * super().forward(x, edge_index)


def keeps_scale(num_features: int, num_classes: int) -> SelfTrained:
    model = KeepsScale(num_features, num_classes)

    def fit(data: Data) -> None:
        model.scale = 3.0

    return SelfTrained(model, fit)


def peeks(num_features: int, num_classes: int) -> SelfTrained:
    """Learns the share of a class from all labels that it is shown."""
    model = Sound(num_features, num_classes)

    def fit(data: Data) -> None:
        with torch.no_grad():
            model.second.lin_l.bias[0] = (data.y == 0).float().mean()

    return SelfTrained(model, fit)


class NotCompiled(Sound):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = super().forward(x, edge_index)
        return out + 1 if torch.compiler.is_compiling() else out


class SumOfGraphs(nn.Module):
    """Classifies graphs, each less the mean of its batch."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.only = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        out = global_add_pool(self.only(x), batch)
        return out - out.mean(dim=0)


class SoundOfGraphs(SumOfGraphs):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return global_add_pool(self.only(x), batch)


def trained(kind: type[nn.Module]) -> Callable[..., object]:
    """A factory whose modules are used as they are."""

    def factory(num_features: int, num_classes: int) -> Trained:
        return Trained(kind(num_features, num_classes).eval())

    return factory


BROKEN: dict[str, Callable[..., Any]] = {
    "permutation-equivariance": trained(UsesNodeIds),
    "edge-order": trained(UsesFirstEdge),
    "no-state": trained(Remembers),
    "determinism": trained(Random),
    "input-unchanged": trained(ChangesInput),
    "feature-gradients": trained(WithoutGradient),
    "any-size": trained(OfOneSize),
    "single-node": trained(NormalisesOverNodes),
    "no-edges": trained(LastEdge),
    "isolated-nodes": trained(DividesByDegree),
    "hubs": trained(FewNeighbours),
    "self-loops": trained(WithoutLoops),
    "duplicate-edges": trained(WithoutDuplicates),
    "separate-parts": trained(SeesMean),
    "locality": trained(SeesMean),
    "batch-independence": trained(SumOfGraphs),
    "training-mode": trained(RandomWidth),
    "double-precision": trained(RoundsFloats),
    "memory-layout": trained(ReadsMemory),
    "int32-edges": trained(MistakesInt32),
    "unit-weights": trained(Weighted),
    "label-leakage": peeks,
    "state-dict": keeps_scale,
    "torch-compile": trained(NotCompiled),
}
