"""Can a model's gradient be followed? Checks for `diagnostics`: missing, wrong, and cut-off links.

A gradient that is missing or exactly zero leads nowhere, and one of another function leads
elsewhere: `forward` may return `deployed(x) + student(x) - student(x).detach()`. And a model that
removes links gives no gradient towards features with which it would keep them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.objectives import margins_of
from grb_check.attacks.protocol import DifferentiableModel, model_on
from grb_check.attacks.threat import Perturbation, apply
from grb_check.errors import ModelError, one_line
from grb_check.gradients.slopes import slopes_along
from grb_check.user_code.randomness import derive_seed, isolated_randomness

Kind: TypeAlias = Literal["features", "edges"]

SAMPLE: Final = 32
ON_ATTACKED: Final = 12  # of these, whose gradients are compared with changes in every case
# Relative to the inputs. A gradient is right if it is for one of them: longer steps cross more
# boundaries between linear parts, on which attacked features tend to lie.
STEPS: Final = (1e-2, 1e-3, 1e-4)
TOLERANCE: Final = 0.5  # of the predicted change
SMALL: Final = 0.1  # share of injected features by which they change to see whether logits do
ROUNDING: Final = 1e-5  # relative to the logits; a change that it could hide is not judged
_LogitsOf: TypeAlias = Callable[[Tensor], Tensor]
_Reader: TypeAlias = Callable[
    [DifferentiableModel, Data, Tensor, Tensor | None], tuple[Tensor, _LogitsOf | None]
]


def missing_gradients(
    model: DifferentiableModel,
    graph: Data,
    targets: Tensor,
    kind: Kind,
    injected: Tensor | None = None,
) -> tuple[float | None, str]:
    """Return the share of sampled targets whose margin has no usable gradient.

    The gradient is missing, exactly zero or not finite, or the backward pass fails. The margin is
    the largest logit of another class minus the logit of the true class. Isolated targets are not
    sampled; of injected nodes only neighbours are, whose logits change with their features.

    Args:
        model: in evaluation mode, parameters frozen.
        graph: `x` [N, d], `edge_index` [2, 2E], true labels `y` [N]; for a set of graphs `batch`
            [N] and `y` [G].
        targets: int64 [t], of which at most `SAMPLE` are sampled.
        kind: take the gradient with respect to features, or to weights of the targets' edges.
        injected: int64 [n], the nodes whose features they are; all if not given.

    Returns:
        0 to 1, or None if there is no target to sample; and the last error of the model or of a
        backward pass, empty if there was none.
    """
    model, sample = model_on(model, graph), _sample(graph, targets, injected)
    if injected is not None and sample.numel():
        sample = sample[_changing(model, graph, sample, injected)]
    if not sample.numel():
        return None, ""
    labels = graph.y[sample]
    with isolated_randomness(derive_seed("gradient sample", kind)), torch.enable_grad():
        try:
            inputs, logits_of = _READERS[kind](model, graph, sample, injected)
            logits = None if logits_of is None else logits_of(inputs)
        except ModelError as raised:  # the model's own check: its output does not depend on them
            return 1.0, one_line(raised)
        if logits is None or not logits.requires_grad:
            return 1.0, ""
        missing, error = _without_gradient(margins_of(logits, labels), inputs)
    return missing / sample.numel(), error


def _without_gradient(margins: Tensor, inputs: Tensor) -> tuple[int, str]:
    """Return how many margins have no usable gradient, and the last error of a backward pass.

    What changes in a random direction has one; where nothing does, the gradient is looked at.
    """
    generator = torch.Generator().manual_seed(0)
    slopes = slopes_along(
        margins, inputs, torch.randn(inputs.shape, generator=generator).to(inputs)
    )
    if slopes is not None:
        margins = margins[~(slopes.isfinite() & (slopes != 0))]
    missing, error = 0, ""
    for margin in margins:
        try:
            missing += _gradient(margin, inputs) is None
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as raised:  # a backward pass that fails or is not implemented
            missing, error = missing + 1, one_line(raised)
    return missing, error


def wrong_gradients(
    model: DifferentiableModel,
    graph: Data,
    targets: Tensor,
    kind: Kind,
    injected: Tensor | None = None,
) -> float:
    """Return the share of sampled targets whose margin does not change as its gradient predicts.

    All inputs take small steps along the gradient of the sum of these margins. The gradient of a
    target is wrong if the change of its margin is off by more than `TOLERANCE` of the predicted
    one, for each of `STEPS`, and backwards it is the same for one of them: else there are kinks in
    between, and it says nothing. Targets without a gradient are not counted, see
    `missing_gradients`; nor is a model whose backward pass fails.

    Args:
        model, graph, targets, kind, injected: as for `missing_gradients`; the graph may be an
            attacked one.
    """
    sample = _sample(graph, targets, injected)[:ON_ATTACKED]
    if not sample.numel():
        return 0.0
    try:
        return _wrong(model_on(model, graph), graph, sample, kind, injected)
    except torch.cuda.OutOfMemoryError:
        raise
    except (ModelError, RuntimeError):
        return 0.0


def _wrong(
    model: DifferentiableModel, graph: Data, sample: Tensor, kind: Kind, injected: Tensor | None
) -> float:
    labels = graph.y[sample]
    seed = derive_seed("gradient sample", kind)
    with torch.enable_grad():
        inputs, logits_of = _READERS[kind](model, graph, sample, injected)
        if logits_of is None:
            return 0.0
        logits = _seeded(logits_of, inputs, seed)
        margins = margins_of(logits, labels)
        direction = _gradient(margins.sum(), inputs)
        if direction is None:
            return 0.0
        slopes = slopes_along(margins, inputs, direction)
        if slopes is None:  # the gradients of all targets may not fit in memory together
            slopes = torch.stack([_slope(margin, inputs, direction) for margin in margins])
    unit = direction * (inputs[direction != 0].norm() / direction.norm())
    predicted = torch.stack([step * slopes * (unit.norm() / direction.norm()) for step in STEPS])

    def changes(sign: int) -> Tensor:
        """Of the margins, by each of the steps, float [steps, s]."""
        moved = [inputs + sign * step * unit for step in STEPS]
        return (
            torch.stack([margins_of(_seeded(logits_of, x, seed), labels) for x in moved]) - margins
        )

    allowed = TOLERANCE * predicted.abs()
    clear = allowed > ROUNDING * float(logits.detach().abs().max())
    with torch.no_grad():
        forwards = changes(1)
        right = (clear & ((forwards - predicted).abs() <= allowed)).any(0)
        if bool((right | ~clear.any(0)).all()):
            return 0.0
        straight = (forwards + changes(-1)).abs() <= allowed
    return float(((clear & straight).any(0) & ~right).sum()) / sample.numel()


def gradient_of_sample(
    model: DifferentiableModel, graph: Data, targets: Tensor, kind: Kind, num_nodes: int
) -> Tensor | None:
    """Return the gradient of the sum of sampled targets' margins; None if it has none of use.

    Args:
        model, graph, targets, kind, num_nodes: as for `doubtful`.
    """
    injected = injected_nodes(graph, num_nodes) if kind == "features" else None
    sample = _sample(graph, targets, injected)
    if not sample.numel():
        return None
    model, seed = model_on(model, graph), derive_seed("gradient sample", kind)
    try:
        with torch.enable_grad():
            inputs, logits_of = _READERS[kind](model, graph, sample, injected)
            if logits_of is None:
                return None
            margins = margins_of(_seeded(logits_of, inputs, seed), graph.y[sample])
            return _gradient(margins.sum(), inputs)
    except torch.cuda.OutOfMemoryError:
        raise
    except (ModelError, RuntimeError):
        return None


def doubtful(
    model: DifferentiableModel, graph: Data, targets: Tensor, kind: Kind, num_nodes: int
) -> float:
    """Return the share of sampled targets whose gradient is missing, plus that of wrong ones.

    Args:
        model, graph, targets, kind: as for `missing_gradients`, the graph an attacked one.
        num_nodes: of the clean graph; with injected nodes, their features are meant.
    """
    injected = injected_nodes(graph, num_nodes) if kind == "features" else None
    missing, _ = missing_gradients(model, graph, targets, kind, injected)
    return (missing or 0.0) + wrong_gradients(model, graph, targets, kind, injected)


def cut_off(
    model: DifferentiableModel, graph: Data, perturbation: Perturbation, targets: Tensor
) -> float:
    """Return the share of linked targets whose logits an injection leaves as they were.

    Args:
        model: in evaluation mode.
        graph: clean.
        perturbation: any; without injected nodes nothing is cut off.
        targets: int64 [t].
    """
    linked = targets.cpu()[torch.isin(targets.cpu(), perturbation.injected_edges[1])]
    if not linked.numel():
        return 0.0
    attacked = apply(graph, perturbation)
    with torch.no_grad():
        before, after = (
            _seeded(_of_features(model_on(model, at), at, linked, None)[1], at.x, 0)
            for at in (graph, attacked)
        )
    change = (after - before).abs().amax(1)
    return float((change <= ROUNDING * before.abs().amax(1)).float().mean())


def _seeded(call: Callable[[Tensor], Tensor], x: Tensor, seed: int) -> Tensor:
    """Call a model with the same random state each time."""
    with isolated_randomness(seed):
        return call(x)


def injected_nodes(graph: Data, num_nodes: int) -> Tensor | None:
    """Return the injected nodes int64 [n] of a graph that `apply` made; None if there are none.

    Args:
        graph: attacked.
        num_nodes: of the clean graph.
    """
    if graph.x.shape[0] == num_nodes:
        return None
    if "clean_nodes" in graph:
        nodes: Tensor = graph.clean_nodes
        return (nodes == -1).nonzero().squeeze(1)
    return torch.arange(num_nodes, graph.x.shape[0], device=graph.x.device)


def _changing(model: DifferentiableModel, graph: Data, sample: Tensor, injected: Tensor) -> Tensor:
    """Which of the targets int64 [s] notice a small change of injected features, bool [s]."""
    moved = graph.x.clone()
    moved[injected] *= 1 - SMALL
    with torch.no_grad():
        before, after = (
            _seeded(lambda x: model(x, graph.edge_index)[sample], x, 0) for x in (graph.x, moved)
        )
    return (after - before).abs().amax(1) > ROUNDING * before.abs().amax(1)


def _sample(graph: Data, targets: Tensor, injected: Tensor | None = None) -> Tensor:
    """Targets with an edge, int64 [at most SAMPLE], ascending, on the graph's device."""
    owners = _owners(graph)
    if injected is not None:
        owners = owners[:, torch.isin(graph.edge_index[1], injected)]
    degrees = torch.bincount(owners[0].cpu(), minlength=graph.y.shape[0])
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
    model: DifferentiableModel, graph: Data, sample: Tensor, injected: Tensor | None
) -> tuple[Tensor, _LogitsOf]:
    if injected is None:
        x = graph.x.clone().requires_grad_()
        return x, lambda features: model(features, graph.edge_index)[sample]

    def logits_of(features: Tensor) -> Tensor:
        x = graph.x.index_copy(0, injected, features)
        return model(x, graph.edge_index)[sample]

    return graph.x[injected].requires_grad_(), logits_of


def _of_edges(
    model: DifferentiableModel, graph: Data, sample: Tensor, injected: Tensor | None
) -> tuple[Tensor, _LogitsOf | None]:
    first, second = graph.edge_index
    at_sample = torch.isin(_owners(graph), sample).any(dim=0)
    pairs = graph.edge_index[:, (first < second) & at_sample]
    weights = torch.ones(pairs.shape[1], device=graph.x.device, requires_grad=True)
    return weights, model.with_pairs(graph.x, graph.edge_index, pairs, sample)


_READERS: Final[dict[Kind, _Reader]] = {"features": _of_features, "edges": _of_edges}


def _slope(value: Tensor, inputs: Tensor, direction: Tensor) -> Tensor:
    """Return the derivative of a value along a direction, 0 if it has no usable gradient."""
    gradient = _gradient(value, inputs)
    return direction.new_zeros(()) if gradient is None else (gradient * direction).sum()


def _gradient(value: Tensor, inputs: Tensor) -> Tensor | None:
    """Return a usable gradient: there is one, finite and not 0."""
    (gradient,) = torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)
    if gradient is None or not bool(gradient.isfinite().all()) or not bool(gradient.any()):
        return None
    return gradient
