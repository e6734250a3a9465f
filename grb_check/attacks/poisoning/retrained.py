r"""A linear graph convolution that is trained anew on each graph that it is called on.

.. math:: Z = S^2 X W_1 W_2, \qquad S = D^{-1/2} (A + I) D^{-1/2},

with weights that gradient descent with momentum has learnt on that graph, after each of several
numbers of steps, since nobody knows which epoch a victim will keep: the surrogate of
`Adversarial Attacks on Graph Neural Networks via Meta Learning <https://arxiv.org/abs/1902.08412>`_
(Zügner and Günnemann 2019, sections 4.1 and 5.1). To attacks it is a model like any other, so that
a search for edges by gradients becomes one by meta-gradients: by the effect of a change on the
model that is trained on the changed graph.

Since the model is linear, its training sees the graph through the rows of :math:`S^2 X` of the
training nodes alone. It is unrolled over those, and the gradient for all pairs of nodes is a
product of matrices as thin as the training nodes or the features, whichever are fewer, and the
classes. The paper has N x N arrays in each step of the training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import EdgeSet, mask_of
from grb_check.attacks.protocol import DifferentiableModel, PairGradients
from grb_check.attacks.threat import Threat
from grb_check.errors import UsageError

HIDDEN: Final = 16  # section 5.1, as the next two
MOMENTUM: Final = 0.9
RATE: Final = 0.1
NORM: Final = 4.0  # mean norm of the features of a node, as in the paper's Cora, which RATE suits


@dataclass(frozen=True, eq=False)
class _Spread:
    """S of one graph of N nodes, and its products.

    Attributes:
        matrix: S, sparse CSR float32 [N, N].
        degrees: of A + I, float [N].
        once: S X, float [N, d].
    """

    matrix: Any
    degrees: Tensor
    once: Tensor

    def times(self, values: Tensor) -> Tensor:
        """Return S times values, float [N, k]."""
        return torch.from_numpy(self.matrix @ values.detach().numpy())

    def gradients(self, inputs: Tensor, outputs: Tensor) -> PairGradients:
        """Return the gradient for all pairs from that for the entries of S, outputs_i . inputs_j.

        Args:
            inputs, outputs: float [N, r].
        """
        # S is scaled by the degrees of both ends, which an edge changes too.
        moved = outputs * self.times(inputs) + inputs * self.times(outputs)
        root = self.degrees.rsqrt()[:, None]
        return PairGradients(root * inputs, root * outputs, -moved.sum(1) / (2 * self.degrees))


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The model trained on one graph of N nodes.

    Attributes:
        whole: of the graph, on which it answers.
        learnt: of the graph on which it was trained.
        seen: rows of S S X that it was trained on, float [n, d].
        weight: W_1 W_2 of each number of steps side by side, float [d, k c], differentiable in
            `seen`.
    """

    whole: _Spread
    learnt: _Spread
    seen: Tensor
    weight: Tensor

    def logits(self) -> Tensor:
        """Return Z of each, float [N, k c], without a gradient."""
        return self.whole.times(self.whole.once @ self.weight.detach())


@dataclass(frozen=True, eq=False)
class Retrained:
    """See the module. A `DifferentiableModel`, except for injections; it works on the CPU.

    Attributes:
        x: float [N, d], features whose mean norm is `NORM`.
        nodes: int64 [n], that it is trained on.
        labels: int64 [n], their classes.
        inductive: whether it is trained on the graph of `nodes` alone. Gradients are then those for
            pairs of these nodes.
        start: initial weights, float [d, HIDDEN] and [HIDDEN, c].
        steps: k ascending numbers of steps after which it answers. Its output is the mean of their
            log-probabilities; pairs have the gradient of their mean objective.
    """

    x: Tensor
    nodes: Tensor
    labels: Tensor
    inductive: bool
    start: tuple[Tensor, Tensor]
    steps: tuple[int, ...]

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return log-probabilities, float [N, c], of the model that is trained on this graph.

        Args:
            x: not used: an attack on edges does not change the features.
            edge_index: int64 [2, 2E], both directions.
            edge_weight: float [2E]; ones if not given.
        """
        return self._mean(self._fitted(edge_index, edge_weight).logits()).to(x.device)

    def pair_gradients(
        self,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> PairGradients:
        """Return the meta-gradient of an objective of the targets' logits for all pairs."""
        fitted = self._fitted(edge_index, edge_weight)
        logits = fitted.logits()[targets.cpu()].to(x.device).requires_grad_()
        with torch.enable_grad():
            values = [objective(chunk) for chunk in logits.chunk(len(self.steps), dim=1)]
            (slope,) = torch.autograd.grad(torch.stack(values).mean(), logits)
        result = self._gradients(fitted, targets.cpu(), slope.cpu())
        parts = (result.inputs, result.outputs, result.degrees)
        return PairGradients(*(part.to(x.device) for part in parts))

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        """Return the map from weights of pairs [m] to the targets' log-probabilities."""
        edges = EdgeSet(torch.empty(0, dtype=torch.int64), x.shape[0])
        edges = EdgeSet(torch.unique(edges.encode(edge_index.cpu())), x.shape[0])
        codes, at = edges.encode(pairs.cpu()), targets.cpu()
        present = edges.has(codes)
        model = self

        class Logits(torch.autograd.Function):
            @staticmethod
            def forward(context: Any, weights: Tensor) -> Tensor:
                given = weights.detach().cpu()
                changed = torch.where(present, 1 - given, given)
                every, weight = edges.partly_flipped(codes, changed)
                context.fitted = model._fitted(every.edge_index(), weight.repeat(2))
                logits: Tensor = context.fitted.logits()
                return logits[at].to(weights.device)

            @staticmethod
            def backward(context: Any, slope: Tensor) -> Tensor:
                gradients = model._gradients(context.fitted, at, slope.cpu())
                return gradients.at(edges.ends(codes)).to(slope.device)

        return lambda weights: self._mean(Logits.apply(weights))  # type: ignore[no-untyped-call]

    def _mean(self, logits: Tensor) -> Tensor:
        """Return the mean log-probabilities, float [m, c], of logits [m, k c]."""
        return torch.stack(
            [chunk.log_softmax(1) for chunk in logits.chunk(len(self.steps), dim=1)]
        ).mean(0)

    def _fitted(self, edge_index: Tensor, edge_weight: Tensor | None) -> _Fitted:
        edges = edge_index.cpu()
        weight = torch.ones(edges.shape[1]) if edge_weight is None else edge_weight.detach().cpu()
        whole = learnt = self._spread(edges, weight)
        if self.inductive:
            inside = mask_of(self.nodes, self.x.shape[0])[edges].all(0)
            learnt = self._spread(edges[:, inside], weight[inside])
        seen = torch.from_numpy(learnt.matrix[self.nodes.numpy()] @ learnt.once.numpy())
        seen.requires_grad_()
        return _Fitted(whole, learnt, seen, self._trained(seen))

    def _spread(self, edges: Tensor, weight: Tensor) -> _Spread:
        size = self.x.shape[0]
        ends = np.concatenate([edges.numpy(), np.tile(np.arange(size), (2, 1))], axis=1)
        entries = np.concatenate([weight.numpy(), np.ones(size, np.float32)])
        matrix = sp.csr_array((entries, tuple(ends)), shape=(size, size))
        degrees = matrix.sum(axis=1).astype(np.float32)
        root = sp.diags_array(1 / np.sqrt(degrees))
        matrix = sp.csr_array(root @ matrix @ root)
        once = torch.from_numpy(matrix @ self.x.numpy())
        return _Spread(matrix, torch.from_numpy(degrees), once)

    def _trained(self, seen: Tensor) -> Tensor:
        """Return W_1 W_2 after each of `steps`, float [d, k c], differentiable in `seen` [n, d]."""
        weights = list(self.start)
        speed = [torch.zeros_like(weight) for weight in weights]
        truth = F.one_hot(self.labels, weights[1].shape[1]).to(seen)
        products = []
        with torch.enable_grad():
            for step in range(1, max(self.steps) + 1):
                # The slopes of the cross-entropy in closed form, so that autograd differentiates
                # once and not twice.
                hidden = seen @ weights[0]
                error = ((hidden @ weights[1]).softmax(1) - truth) / len(truth)
                slopes = (seen.T @ (error @ weights[1].T), hidden.T @ error)
                speed = [MOMENTUM * v + slope for v, slope in zip(speed, slopes, strict=True)]
                weights = [w - RATE * v for w, v in zip(weights, speed, strict=True)]
                if step in self.steps:
                    products.append(weights[0] @ weights[1])
            return torch.cat(products, dim=1)

    def _gradients(self, fitted: _Fitted, targets: Tensor, slope: Tensor) -> PairGradients:
        """Return the gradient for all pairs from that for the logits of the targets [t, k c].

        Each product S M with a gradient G of its result adds G_i . M_j to that of the entry of S at
        i, j: with M = X W and S X W in the model's answer, and S X and X in what it was trained on.
        """
        size, weight = self.x.shape[0], fitted.weight.detach()
        whole, learnt = fitted.whole, fitted.learnt
        received = torch.zeros(size, slope.shape[1]).index_add_(0, targets, slope)
        back = whole.times(received)
        (by_seen,) = torch.autograd.grad(fitted.weight, fitted.seen, whole.once.T @ back)  # [n, d]
        # Rows of `seen` by its features or by its nodes, whichever are fewer.
        at_nodes, by_seen = (
            (by_seen, torch.eye(by_seen.shape[1]))
            if by_seen.shape[0] > by_seen.shape[1]
            else (torch.eye(by_seen.shape[0]), by_seen)
        )
        chosen = torch.zeros(size, at_nodes.shape[1])
        chosen[self.nodes] = at_nodes
        answered = whole.gradients(
            torch.cat([self.x @ weight, whole.once @ weight], dim=1),
            torch.cat([back, received], dim=1),
        )
        trained = learnt.gradients(
            torch.cat([learnt.once @ by_seen.T, self.x @ by_seen.T], dim=1),
            torch.cat([chosen, learnt.times(chosen)], dim=1),
        )
        return PairGradients(
            torch.cat([answered.inputs, trained.inputs], dim=1),
            torch.cat([answered.outputs, trained.outputs], dim=1),
            answered.degrees + trained.degrees,
        )


def check_training_steps(steps: tuple[int, ...]) -> None:
    """Check the numbers of steps of a training.

    Raises:
        UsageError: they are no ascending numbers of 1 or more.
    """
    ascend = isinstance(steps, tuple) and steps == tuple(sorted(set(steps)))
    if not ascend or not steps or steps[0] < 1:
        raise UsageError(
            f"training_steps is {steps!r}; give one number of 1 or more, or several that ascend"
        )


def training_nodes(graph: Data, threat: Threat) -> Tensor:
    """Return the nodes that a victim learns from, int64 [n] on the CPU.

    Those of `graph.train_mask`; without one, all that are not attacked.
    """
    mask = graph.get("train_mask")
    if mask is None:
        mask = ~mask_of(threat.targets, graph.num_nodes)
        mask = mask if mask.any() else ~mask
    nodes: Tensor = mask.cpu().nonzero().squeeze(1)
    return nodes


def retrained(
    graph: Data, threat: Threat, steps: tuple[int, ...], generator: torch.Generator
) -> DifferentiableModel:
    """Return the model for a graph as attacks are shown it.

    Args:
        graph: `x` [N, d], `y` [N] with the true labels of training nodes; `inductive` if models are
            trained on the graph of these alone.
        threat: see `training_nodes`.
        steps: see `Retrained`.
        generator: of the initial weights, which are the same in every training, so that equal
            graphs have equal logits.
    """
    x, y, nodes = graph.x.cpu(), graph.y.cpu(), training_nodes(graph, threat)
    shapes = ((x.shape[1], HIDDEN), (HIDDEN, int(y.max()) + 1))
    first, second = (
        (2 * torch.rand(shape, generator=generator) - 1) / shape[1] ** 0.5 for shape in shapes
    )
    scale = NORM / x.norm(dim=1).mean().clamp(min=1e-12)
    # Searches of edges, which alone are given it, inject nothing.
    model = Retrained(
        scale * x, nodes, y[nodes], bool(graph.get("inductive")), (first, second), steps
    )
    return cast(DifferentiableModel, model)
