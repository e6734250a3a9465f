r"""A linear graph convolution, :math:`Z = S^2 X W`, as attacks on single targets use it.

S is D^{-1/2} (A + I) D^{-1/2}. `Adversarial Attacks on Neural Networks for Graph Data
<https://arxiv.org/abs/1805.07984>`_ (Zügner et al. 2018, equation 6) leaves the non-linearity of a
GCN of two layers out; `Simplifying Graph Convolutional Networks <https://arxiv.org/abs/1902.07153>`_
(Wu et al. 2019) has the same model as SGC.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import adjacency_of

STEPS: Final = 200  # of Adam
RATE: Final = 0.1
DECAY: Final = 5e-5
SPREAD: Final = 0.01  # standard deviation of the initial weights


@dataclass(frozen=True, eq=False)
class LinearSurrogate:
    """The surrogate on a graph of N nodes.

    Attributes:
        weight: W, float [d, c].
        scores: C = X W, float [N, c].
        degrees: of A + I, float [N].
        received: s, float [N, c], :math:`s_i = \\sum_{j \\in N(i) \\cup \\{i\\}} d_j^{-1/2} C_j`.
        logits: Z, float [N, c].
    """

    weight: Tensor
    scores: Tensor
    degrees: Tensor
    received: Tensor
    logits: Tensor


def fitted(graph: Data, generator: torch.Generator, *, decay: float = DECAY) -> LinearSurrogate:
    """Fit W to the labels of nodes, `graph.y`, and return the surrogate.

    The nodes are a bootstrap sample, as many as there are, so that repeats differ in what the
    surrogate learns; the loss is convex, and initial weights alone would make no difference.

    Args:
        graph: on the CPU, `x` [N, d], `edge_index` [2, 2E], `y` [N]: true labels where they are
            known, a surrogate's guesses for all others, so that it imitates that surrogate.
        generator: of the sample and of the initial weights.
        decay: of the weights.
    """
    x, classes = graph.x, int(graph.y.max()) + 1
    degrees = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes).to(x) + 1
    hidden = _smoothed_twice(graph)
    sample = torch.randint(graph.num_nodes, (graph.num_nodes,), generator=generator)
    drawn = SPREAD * torch.randn((x.shape[1], classes), generator=generator)
    weight = drawn.to(x.dtype).requires_grad_()
    learnt, labels = hidden[sample], graph.y[sample]
    optimiser = torch.optim.Adam([weight], lr=RATE, weight_decay=decay)
    with torch.enable_grad():
        for _ in range(STEPS):
            optimiser.zero_grad()
            F.cross_entropy(learnt @ weight, labels).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    weight = weight.detach()
    scores = x @ weight
    received = _sums(scores * degrees.rsqrt()[:, None], graph.edge_index)
    return LinearSurrogate(weight, scores, degrees, received, hidden @ weight)


def on_edges(surrogate: LinearSurrogate, graph: Data) -> LinearSurrogate:
    """Return the surrogate of the same W and features on the edges of another graph."""
    scores = surrogate.scores
    degrees = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes).to(scores) + 1
    received = _sums(scores * degrees.rsqrt()[:, None], graph.edge_index)
    shares = _sums(received / degrees[:, None], graph.edge_index)
    return replace(
        surrogate,
        degrees=degrees,
        received=received,
        logits=degrees.rsqrt()[:, None] * shares,
    )


def _smoothed_twice(graph: Data) -> Tensor:
    """Return S^2 X, float [N, d]; in float64 and sparse."""
    matrix = adjacency_of(graph) + sp.eye_array(graph.num_nodes)
    scale = sp.diags_array(1.0 / np.sqrt(matrix.sum(axis=1)))
    filtered = sp.csr_array(scale @ matrix @ scale)
    return torch.from_numpy(filtered @ (filtered @ graph.x.double().numpy())).to(graph.x)


def _sums(x: Tensor, edge_index: Tensor) -> Tensor:
    """Return the sums over each node and its neighbours, [N, c]."""
    row, column = edge_index
    return x.index_add(0, row, x[column])
