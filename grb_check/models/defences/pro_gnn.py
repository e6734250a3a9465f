"""Pro-GNN: the adjacency is learned together with a GCN, so that it is sparse and of low rank.

Jin et al., "Graph Structure Learning for Robust Graph Neural Networks", KDD 2020, equation 10 and
algorithm 1: over symmetric S with entries in [0, 1] and the weights of a GCN, minimise

    |A - S|_F^2 + alpha |S|_1 + beta |S|_* + gamma L_GNN(S) + lambda tr(X' L X)

with |S|_* the sum of the singular values and L the normalised Laplacian of S, by turns: a step of S
by the gradient of the first and the last two terms, the proximal operators of the two others, a
projection to [0, 1], and steps of the GCN.

The paper squares the first norm and the authors' code does not; here it is squared. Their code
takes a singular value decomposition after each step of S; here every `NUCLEAR_EVERY` steps, with
that many times the threshold. Their steps have a momentum, which the paper does not mention; here
they have none. The hyper-parameters are those of the authors' scripts, the epochs for CiteSeer
those of Cora (400, not 1,000).

S belongs to the graph of the training, and neither the paper nor its code says what happens on
another one, such as one that was attacked after the training. Here what was learned, D = S - A, is
added to the adjacency A' that is given, with entries below 0 set to 0, so that S answers for the
training's graph and an attacker's edges count. D is of the first nodes of A', if those that had
labels have the same features as in the training; all other nodes, such as injected ones, have
entries of 0. In inductive training the graph of the test has other nodes there: the weights learned
with S are then used on A' as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from types import MappingProxyType
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.gradients.normalisation import Propagation
from grb_check.models.defences.dense import check_dense
from grb_check.models.reference.gcn import GCN
from grb_check.training.nodes import (
    Fit,
    TrainingRun,
    TrainingSettings,
    adapter_of,
    check_views,
    counted,
    descend,
    drawn_seed,
    measure_on,
)
from grb_check.victims.wrappers import SelfTrained, evaluating

FALLBACK: Final = "planetoid-cora"
SMOOTHNESS: Final[Mapping[str, float]] = MappingProxyType(  # lambda
    {"planetoid-cora": 1e-3, "planetoid-citeseer": 1e-4}
)
SPARSITY: Final = 5e-4  # alpha
LOW_RANK: Final = 1.5  # beta
FROM_LABELS: Final = 1.0  # gamma
STEP: Final = 0.01  # of S
GCN_STEPS: Final = 2  # for each step of S
NUCLEAR_EVERY: Final = 10  # steps of S
ARRAYS: Final = 10  # N x N arrays in memory at a time, measured in training
TRAINING: Final = TrainingSettings(
    lr=1e-3,
    weight_decay=5e-4,
    max_epochs=400 * GCN_STEPS,
    patience=400 * GCN_STEPS,
    warmup_epochs=1,
    max_gradient_norm=float("inf"),
)


class ProGNN(nn.Module):
    """A GCN whose adjacency has the changes that were learned in training.

    Args:
        num_features: columns of `x`.
        num_classes: columns of the logits.
        hidden_size: of the GCN, of two layers.
        dropout: probability, after the ReLU.
    """

    change: Tensor
    known: Tensor
    features: Tensor

    def __init__(
        self, num_features: int, num_classes: int, hidden_size: int = 16, *, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.gcn = GCN(num_features, num_classes, (hidden_size,), dropout=dropout)
        self.register_buffer("change", torch.zeros(0, 0))  # D, float [n, n]
        self.register_buffer("known", torch.zeros(0, dtype=torch.int64))  # nodes with labels
        self.register_buffer("features", torch.zeros(0, num_features))  # theirs
        self.register_load_state_dict_pre_hook(_resize)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes].

        Args:
            x: float [num_nodes, num_features].
            edge_index: int64 [2, e], both directions of each edge, no self-loop, no duplicate.
            edge_weight: float [e], the same in both directions; may require a gradient.

        Raises:
            ModelError: the graph is that of the training, and too large for N x N arrays.
        """
        if not self._knows(x):
            logits: Tensor = self.gcn(x, edge_index, edge_weight)
            return logits
        matrix = dense_adjacency(edge_index, x.shape[0], edge_weight, like=x)
        size = self.change.shape[0]
        change = F.pad(self.change.to(x.dtype), (0, x.shape[0] - size) * 2)
        return self.gcn.through(x, normalised((matrix + change).clamp(min=0)))

    def _knows(self, x: Tensor) -> bool:
        """Return whether the first nodes are those of the training."""
        if not 0 < self.change.shape[0] <= x.shape[0]:
            return False
        return torch.equal(x[self.known].to(self.features.dtype), self.features)


def _resize(module: nn.Module, state: Mapping[str, Tensor], prefix: str, *_: object) -> None:
    """Give the buffers the sizes of those of a trained model that will be loaded into them."""
    for name in ("change", "known", "features"):
        if prefix + name in state:
            setattr(module, name, torch.empty_like(state[prefix + name]))


def dense_adjacency(
    edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None, *, like: Tensor
) -> Tensor:
    """Return float [N, N] of the dtype and device of a tensor.

    Raises:
        ModelError: it would take too much memory.
    """
    check_dense("structure learning", num_nodes, arrays=ARRAYS, bytes_each=like.element_size())
    weights = like.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight
    matrix = like.new_zeros((num_nodes, num_nodes))
    return matrix.index_put((edge_index[1], edge_index[0]), weights.to(like.dtype))


def normalised(matrix: Tensor) -> Propagation:
    """Return H -> D^-1/2 (S + I) D^-1/2 H for S float [N, N], with D the degrees of S + I."""
    scale = (matrix.sum(dim=1, keepdim=True) + 1).rsqrt()
    return lambda h: scale * (matrix @ (scale * h) + scale * h)


def roughness(matrix: Tensor, products: Tensor) -> Tensor:
    """Return tr(X' L X) for S float [N, N] and the products X X' [N, N]."""
    degrees = matrix.sum(dim=1)
    linked = degrees > 0
    scale = torch.where(linked, degrees, 1.0).rsqrt() * linked
    between = scale @ (matrix * products) @ scale
    value: Tensor = (products.diagonal() * linked).sum() - between
    return value


def low_rank_prox(matrix: Tensor, threshold: float) -> Tensor:
    """Return the symmetric matrix with all singular values smaller by a threshold, or 0."""
    values, vectors = torch.linalg.eigh(matrix)
    shrunk = values.sign() * (values.abs() - threshold).clamp(min=0)
    smaller: Tensor = (vectors * shrunk) @ vectors.T
    return smaller


class StructureLearning:
    """The steps of S, which starts as the adjacency.

    Args:
        model: whose GCN the steps are for; its `change` follows S.
        data: the training view.
        smoothness: lambda.

    Raises:
        ModelError: the graph is too large for N x N arrays.
    """

    def __init__(self, model: ProGNN, data: Data, smoothness: float) -> None:
        x = data.x
        self.adjacency = dense_adjacency(data.edge_index, x.shape[0], None, like=x)
        self.learned = self.adjacency.clone()  # S
        self._products = x @ x.T
        self._model, self._data, self._smoothness = model, data, smoothness
        self._nodes = counted(data, "train_mask")
        self._steps = 0
        positions = torch.arange(x.shape[0], device=x.device)
        model.known, model.features = positions[self._nodes], x[self._nodes].clone()

    def step(self) -> None:
        """Change S once."""
        self._steps += 1
        gradient = self._gradient()
        moved = self.learned - STEP * (gradient + 2 * (self.learned - self.adjacency))
        if self._steps % NUCLEAR_EVERY == 0:
            moved = low_rank_prox(moved, NUCLEAR_EVERY * STEP * LOW_RANK)
        # With entries of at least 0, the proximal operator of the 1-norm is a shift.
        self.learned = (moved - STEP * SPARSITY).clamp(0, 1).fill_diagonal_(0)
        self._model.change = self.learned - self.adjacency

    def loss(self) -> Tensor:
        """Return the cross-entropy of the training nodes on S, differentiable in the weights."""
        return self._cross_entropy(self.learned)

    def _gradient(self) -> Tensor:
        """Return the symmetric gradient of the terms of labels and features at S."""
        matrix = self.learned.requires_grad_()
        with evaluating(self._model):
            value = FROM_LABELS * self._cross_entropy(matrix)
        value = value + self._smoothness * roughness(matrix, self._products)
        (result,) = torch.autograd.grad(value, matrix)
        self.learned.requires_grad_(False)
        return (result + result.T) / 2

    def _cross_entropy(self, matrix: Tensor) -> Tensor:
        logits = self._model.gcn.through(self._data.x, normalised(matrix))
        return F.cross_entropy(logits[self._nodes], self._data.y[self._nodes])


def fit_of(model: ProGNN, smoothness: float) -> Fit:
    """Return a `fit` for `grb_check.SelfTrained`: algorithm 1."""

    def fit(data: Data, validation: Data | None = None) -> TrainingRun:
        adapter = adapter_of(model)
        seed = drawn_seed()
        columns = check_views(adapter, data, validation, seed=seed)
        structure = StructureLearning(model, data, smoothness)
        calls = count()

        def loss() -> Tensor:
            if next(calls) % GCN_STEPS == 0:
                structure.step()
            return structure.loss()

        measure = None
        if validation is not None:
            measure = measure_on(adapter, validation, columns, counted(validation, "val_mask"))
        return descend(adapter, loss, measure, TRAINING, seed=seed, measure_every=GCN_STEPS)

    return fit


def pro_gnn(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained Pro-GNN and its training; that of Cora for datasets without a row."""
    model = ProGNN(num_features, num_classes)
    return SelfTrained(model, fit_of(model, SMOOTHNESS.get(dataset, SMOOTHNESS[FALLBACK])))
