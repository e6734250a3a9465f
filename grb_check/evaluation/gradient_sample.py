"""The share of targets for which a model gives a usable gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.objectives import margin
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.errors import ModelError, one_line
from grb_check.user_code.randomness import derive_seed, isolated_randomness

Kind: TypeAlias = Literal["features", "edges"]

SAMPLE: Final = 32


def missing_gradients(
    model: DifferentiableModel, graph: Data, targets: Tensor, kind: Kind
) -> tuple[float | None, str]:
    """Return the share of sampled targets whose margin has no usable gradient.

    The gradient is missing, exactly zero or not finite, or the backward pass fails. The margin is
    the largest logit of another class minus the logit of the true class. Isolated targets are not
    sampled.

    Args:
        model: in evaluation mode, parameters frozen.
        graph: `x` [N, d], `edge_index` [2, 2E], true labels `y` [N]; for a set of graphs `batch`
            [N] and `y` [G].
        targets: int64 [t], of which at most `SAMPLE` are sampled.
        kind: take the gradient with respect to all features, or to weights of the targets' edges.

    Returns:
        0 to 1, or None if there is no target to sample; and the last error of the model or of a
        backward pass, empty if there was none.
    """
    sample = _sample(graph, targets)
    if not sample.numel():
        return None, ""
    labels, error = graph.y[sample], ""
    found = 0
    with isolated_randomness(derive_seed("gradient sample", kind)), torch.enable_grad():
        try:
            inputs, logits = _READERS[kind](model, graph, sample)
        except ModelError as raised:  # the model's own check: its output does not depend on them
            return 1.0, one_line(raised)
        if logits is None or not logits.requires_grad:
            return 1.0, ""
        for row in range(sample.numel()):
            try:
                found += _has_gradient(margin(logits[[row]], labels[[row]]), inputs)
            except torch.cuda.OutOfMemoryError:
                raise
            except RuntimeError as raised:  # a backward pass that fails or is not implemented
                error = one_line(raised)
    return 1 - found / sample.numel(), error


def _sample(graph: Data, targets: Tensor) -> Tensor:
    """Targets with an edge, int64 [at most SAMPLE], ascending, on the graph's device."""
    degrees = torch.bincount(_owners(graph)[0].cpu(), minlength=graph.y.shape[0])
    connected = targets.cpu()[degrees[targets.cpu()] > 0]
    generator = torch.Generator().manual_seed(derive_seed("gradient sample"))
    chosen = torch.randperm(connected.numel(), generator=generator)[:SAMPLE]
    return connected[chosen].sort().values.to(graph.x.device)


def _owners(graph: Data) -> Tensor:
    """Ends of each edge, or in a set of graphs the graph that they are in, int64 [2, 2E]."""
    batch: Tensor | None = graph.get("batch")
    edge_index: Tensor = graph.edge_index
    return edge_index if batch is None else batch[edge_index]


def _of_features(
    model: DifferentiableModel, graph: Data, sample: Tensor
) -> tuple[Tensor, Tensor | None]:
    x = graph.x.clone().requires_grad_()
    return x, model(x, graph.edge_index)[sample]


def _of_edges(
    model: DifferentiableModel, graph: Data, sample: Tensor
) -> tuple[Tensor, Tensor | None]:
    first, second = graph.edge_index
    at_sample = torch.isin(_owners(graph), sample).any(dim=0)
    pairs = graph.edge_index[:, (first < second) & at_sample]
    weights = torch.ones(pairs.shape[1], device=graph.x.device, requires_grad=True)
    logits_of = model.with_pairs(graph.x, graph.edge_index, pairs, sample)
    return weights, None if logits_of is None else logits_of(weights)


_Reader: TypeAlias = Callable[[DifferentiableModel, Data, Tensor], tuple[Tensor, Tensor | None]]
_READERS: Final[dict[Kind, _Reader]] = {"features": _of_features, "edges": _of_edges}


def _has_gradient(value: Tensor, inputs: Tensor) -> bool:
    (gradient,) = torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)
    if gradient is None or not bool(gradient.isfinite().all()):
        return False
    return bool(gradient.count_nonzero())
