"""Can a model's gradient be followed? Checks for `diagnostics`: missing, wrong, and cut-off links.

A gradient that is missing or exactly zero leads nowhere, and one of another function leads
elsewhere: `forward` may return `deployed(x) + student(x) - student(x).detach()`. And a model that
removes links gives no gradient towards features with which it would keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
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
ONE_BY_ONE: Final = 12  # of these, where each gradient takes a backward pass
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


@dataclass(frozen=True, eq=False)
class Margins:
    """Sampled targets' margins, as computed with gradients on: one forward pass for all checks.

    A margin is the largest logit of another class minus the logit of the true class.

    Attributes:
        inputs: float, the features or the weights of edges by which they are differentiated.
        logits_of: from other inputs to the targets' logits float [s, c], with the same randomness.
        labels: int64 [s], the targets' classes.
        logits: float [s, c].
        injected: whether the inputs are features of injected nodes.
    """

    inputs: Tensor
    logits_of: _LogitsOf
    labels: Tensor
    logits: Tensor
    injected: bool

    @cached_property
    def values(self) -> Tensor:
        """The margins, float [s]."""
        with torch.enable_grad():
            return margins_of(self.logits, self.labels)

    @cached_property
    def direction(self) -> Tensor | None:
        """The gradient of their sum, of the shape of `inputs`; None if it has none of use.

        Raises:
            RuntimeError: the backward pass fails.
        """
        return _gradient(self.values.sum(), self.inputs)

    @cached_property
    def slopes(self) -> Tensor | None:
        """Their derivatives along `direction`, float [s]; None if only one after the other."""
        if self.direction is None:
            return None
        return slopes_along(self.values, self.inputs, self.direction)

    @cached_property
    def noticing(self) -> Tensor:
        """Which targets notice a small change of all inputs, bool [s]."""
        return _noticing(self.logits_of, self.inputs, self.logits.detach())

    def after(self, inputs: Tensor) -> Tensor:
        """Return the margins for other inputs, float [s]."""
        return margins_of(self.logits_of(inputs), self.labels)


@dataclass(frozen=True)
class NoMargins:
    """Why there are no margins to differentiate.

    Attributes:
        sampled: whether there is a target that can be asked for, see `missing_gradients`.
        error: that the model raised; empty if there was none.
    """

    sampled: bool
    error: str = ""


def sampled_margins(
    model: DifferentiableModel,
    graph: Data,
    targets: Tensor,
    kind: Kind,
    injected: Tensor | None = None,
) -> Margins | NoMargins:
    """Return the margins of a sample of the targets, to be differentiated.

    Isolated targets are not sampled; of injected nodes only neighbours are.

    Args:
        model: in evaluation mode, parameters frozen.
        graph: `x` [N, d], `edge_index` [2, 2E], true labels `y` [N]; for a set of graphs `batch`
            [N] and `y` [G]. It may be an attacked one.
        targets: int64 [t], of which at most `SAMPLE` are sampled.
        kind: take the gradient with respect to features, or to weights of the targets' edges.
        injected: int64 [n], the nodes whose features they are; all if not given.
    """
    logits_of: _LogitsOf | None = None
    sample, seed = _sample(graph, targets, injected), derive_seed("gradient sample", kind)
    if not sample.numel():
        return NoMargins(sampled=False)
    on_graph, error = model_on(model, graph), ""
    try:
        with isolated_randomness(seed), torch.enable_grad():
            inputs, logits_of = _READERS[kind](on_graph, graph, sample, injected)
            logits = None if logits_of is None else logits_of(inputs)
    except ModelError as raised:  # the model's own check: its output does not depend on them
        logits, error = None, one_line(raised)
    if logits_of is not None and logits is not None and logits.requires_grad:
        seeded = partial(_seeded, logits_of, seed=seed)
        return Margins(inputs, seeded, graph.y[sample], logits, injected is not None)
    asked = injected is None or _any_notices(on_graph, graph, sample, injected)
    return NoMargins(sampled=asked, error=error)


def _any_notices(model: DifferentiableModel, graph: Data, sample: Tensor, injected: Tensor) -> bool:
    """Return whether any of the targets notices a change of features; the model has no gradient."""
    inputs, logits_of = _of_features(model, graph, sample, injected)
    seeded = partial(_seeded, logits_of, seed=0)
    with torch.no_grad():
        return bool(_noticing(seeded, inputs, seeded(inputs)).any())


def _noticing(logits_of: _LogitsOf, inputs: Tensor, before: Tensor) -> Tensor:
    """Return which rows of logits [s, c] a small change of the inputs changes, bool [s]."""
    with torch.no_grad():
        after = logits_of((1 - SMALL) * inputs)
    return (after - before).abs().amax(1) > ROUNDING * before.abs().amax(1)


def missing_gradients(margins: Margins | NoMargins) -> tuple[float | None, str]:
    """Return the share of sampled targets whose margin has no usable gradient.

    The gradient is missing, exactly zero or not finite, or the backward pass fails. Of features of
    injected nodes only targets count whose logits change with them.

    Returns:
        0 to 1, or None if there is no target to look at; and the last error of the model or of a
        backward pass, empty if there was none.
    """
    if isinstance(margins, NoMargins):
        return (1.0 if margins.sampled else None), margins.error
    asked = margins.noticing if margins.injected else torch.ones_like(margins.labels).bool()
    if not asked.any():
        return None, ""
    missing, error = _without_gradient(margins, asked)
    return missing / int(asked.sum()), error


def _without_gradient(margins: Margins, asked: Tensor) -> tuple[int, str]:
    """Return how many of some margins have no usable gradient, and the last backward error.

    What changes along the gradient of the sum has one; where nothing does, the margin's own is
    looked at.
    """
    try:
        slopes = margins.slopes
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError:  # which each margin has then, too
        slopes = None
    if slopes is not None:
        asked = asked & ~(slopes.isfinite() & (slopes != 0))
    missing, error = 0, ""
    for margin in margins.values[asked]:
        try:
            missing += _gradient(margin, margins.inputs) is None
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as raised:  # a backward pass that fails or is not implemented
            missing, error = missing + 1, one_line(raised)
    return missing, error


def wrong_gradients(margins: Margins | NoMargins) -> float:
    """Return the share of sampled targets whose margin does not change as its gradient predicts.

    All inputs take small steps along the gradient of the sum of the margins. The gradient of a
    target is wrong if the change of its margin is off by more than `TOLERANCE` of the predicted
    one, for each of `STEPS`, and backwards it is the same for one of them: else there are kinks in
    between, and it says nothing. Targets without a gradient are not counted, see
    `missing_gradients`; nor is a model whose backward pass fails.
    """
    if isinstance(margins, NoMargins):
        return 0.0
    try:
        direction, slopes = margins.direction, margins.slopes
        if direction is None:
            return 0.0
        if slopes is None:  # the gradients of all targets may not fit in memory together
            slopes = _slopes_of_few(margins, direction)
        with torch.no_grad():
            return _wrong(margins, direction, slopes)
    except torch.cuda.OutOfMemoryError:
        raise
    except (ModelError, RuntimeError):
        return 0.0


def _wrong(margins: Margins, direction: Tensor, slopes: Tensor) -> float:
    """Return the share of wrong gradients of the first targets, as many as there are slopes."""
    count, inputs, before = slopes.numel(), margins.inputs, margins.values.detach()
    unit = direction * (inputs[direction != 0].norm() / direction.norm())
    predicted = torch.stack([step * slopes * (unit.norm() / direction.norm()) for step in STEPS])

    def changes(sign: int) -> Tensor:
        """Of the margins, by each of the steps, float [steps, count]."""
        moved = [margins.after(inputs + sign * step * unit) for step in STEPS]
        return (torch.stack(moved) - before)[:, :count]

    allowed = TOLERANCE * predicted.abs()
    clear = allowed > ROUNDING * float(margins.logits.detach().abs().max())
    forwards = changes(1)
    right = (clear & ((forwards - predicted).abs() <= allowed)).any(0)
    if bool((right | ~clear.any(0)).all()):
        return 0.0
    straight = (forwards + changes(-1)).abs() <= allowed
    return float(((clear & straight).any(0) & ~right).sum()) / count


def _slopes_of_few(margins: Margins, direction: Tensor) -> Tensor:
    """Return derivatives of the first margins along a direction, 0 without a usable gradient."""
    gradients = (_gradient(margin, margins.inputs) for margin in margins.values[:ONE_BY_ONE])
    return torch.stack(
        [
            direction.new_zeros(()) if gradient is None else (gradient * direction).sum()
            for gradient in gradients
        ]
    )


def gradient_of(margins: Margins | NoMargins) -> Tensor | None:
    """Return the gradient of the sum of the margins, like the inputs; None without one of use."""
    if isinstance(margins, NoMargins):
        return None
    try:
        return margins.direction
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError:  # a backward pass that fails or is not implemented
        return None


def doubtful(margins: Margins | NoMargins) -> float:
    """Return the share of sampled targets whose gradient is missing, plus that of wrong ones."""
    missing, _ = missing_gradients(margins)
    return (missing or 0.0) + wrong_gradients(margins)


def cut_off(
    model: DifferentiableModel, graph: Data, perturbations: Sequence[Perturbation], targets: Tensor
) -> list[float]:
    """Return for each perturbation the share of linked targets whose logits it leaves as they were.

    Args:
        model: in evaluation mode.
        graph: clean.
        perturbations: any; without injected nodes nothing is cut off.
        targets: int64 [t].
    """
    linked = [_linked(perturbation, targets) for perturbation in perturbations]
    if not any(nodes.numel() for nodes in linked):
        return [0.0 for _ in linked]
    clean = _logits(model, graph)
    return [
        _unchanged(clean[nodes], _logits(model, apply(graph, perturbation))[nodes])
        for perturbation, nodes in zip(perturbations, linked, strict=True)
    ]


def _unchanged(before: Tensor, after: Tensor) -> float:
    """Return the share of rows [l, c] that are the same but for rounding; 0 of none."""
    change = (after - before).abs().amax(1)
    return float((change <= ROUNDING * before.abs().amax(1)).float().mean()) if len(before) else 0.0


def _linked(perturbation: Perturbation, targets: Tensor) -> Tensor:
    """Return the targets that injected nodes are linked to, int64 [l]."""
    return targets.cpu()[torch.isin(targets.cpu(), perturbation.injected_edges[1])]


def _logits(model: DifferentiableModel, graph: Data) -> Tensor:
    with torch.no_grad():
        on_graph = model_on(model, graph)
        return _seeded(lambda x: on_graph(x, graph.edge_index), graph.x, 0)


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


def _gradient(value: Tensor, inputs: Tensor) -> Tensor | None:
    """Return a usable gradient: there is one, finite and not 0."""
    (gradient,) = torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)
    if gradient is None or not bool(gradient.isfinite().all()) or not bool(gradient.any()):
        return None
    return gradient
