"""Gradient ascent on the features of injected nodes with fixed links."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.harmony import homophily_of_features
from grb_check.attacks.injection.shared.steps import Step
from grb_check.attacks.injection.shared.weak_targets import mean_probabilities
from grb_check.attacks.objectives import highest_of, objective_named
from grb_check.attacks.protocol import DifferentiableModel, members
from grb_check.attacks.setting_checks import (
    GradientSettings,
    check_at_least,
    check_gradient_settings,
    check_positive,
)
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.errors import GradientError, ModelError, UsageError, one_line

LogitsOfFeatures = Callable[[Tensor], Tensor]
ValuesOfFeatures = Callable[[Tensor], Tensor]

# Gains below this share of the objective's value (or of 1, if larger) count as none.
MIN_GAIN: Final = 1e-3
# A step that gains is followed by a larger one, any other by a smaller one (the bold driver of
# Vogl et al. 1988, "Accelerating the convergence of the back-propagation method").
GROWTH: Final = 1.5
SHRINKAGE: Final = 0.7
LARGEST: Final = 64.0


class AscentSettings(GradientSettings, Protocol):
    """Settings of every gradient ascent on features.

    Attributes:
        step_size: size of one step, of the first one if sizes adapt.
        iterations: maximum number of steps.
        patience: sizes of steps adapt, and the search stops after that many steps without a gain,
            see `maximise`; None takes all steps with one size, as the papers do. (our choice)
    """

    @property
    def step_size(self) -> float: ...
    @property
    def iterations(self) -> int: ...
    @property
    def patience(self) -> int | None: ...


class FeatureSearchSettings(AscentSettings, Protocol):
    """Settings of every search for features of injected nodes.

    Attributes:
        harmony: weight of the homophily of injected nodes in the objective (HAO, see
            `NodesInGraph.objective`); 0 is the attack without it.
    """

    @property
    def harmony(self) -> float: ...


def check_ascent(attack: AscentSettings) -> None:
    """Check the settings of a gradient ascent.

    Raises:
        UsageError: names the setting, its value and what is allowed.
    """
    check_gradient_settings(attack)
    check_positive(attack, "step_size")
    check_at_least(0, attack, "iterations")
    if attack.patience is not None and attack.patience < 1:
        raise UsageError(f"patience is {attack.patience}; it must be 1 or more, or none")


def check_feature_search(attack: FeatureSearchSettings) -> None:
    """Check the settings of a search for features of injected nodes, as `check_ascent`."""
    check_ascent(attack)
    check_at_least(0, attack, "harmony")


class PlacedNodes(Protocol):
    """Injected nodes with fixed links, whose features are searched for."""

    def best_features(
        self,
        start: Tensor,
        step: Step,
        settings: FeatureSearchSettings,
        moves: Tensor | None = None,
    ) -> Tensor:
        """Return the best features float32 [n, d] that gradient ascent finds.

        Args:
            start: float [n, d], within the domain of features.
            step: see `maximise_each`.
            settings: of the attack.
            moves: bool [n], which nodes' features may change; all if not given.
        """
        ...

    def probabilities(self, features: Tensor) -> Tensor:
        """Return the targets' class probabilities [t, c] with these features, mean over members."""
        ...


# From `injected_edges` [2, e] and the group int64 [n] of each node, see `links.Sites`.
Place = Callable[[Tensor, Tensor], PlacedNodes]


def place_in_graph(graph: Data, threat: Threat, model: DifferentiableModel) -> Place:
    """Return how nodes are injected into a single graph; arguments as of `nodes_in_graph`."""
    if threat.batch is not None:
        raise ValueError("the targets are graphs: give perturb injected_graphs.place_in_graphs")
    return lambda links, owners: nodes_in_graph(graph, links, threat, model, owners.numel())


def nodes_in_graph(
    graph: Data, links: Tensor, threat: Threat, model: DifferentiableModel, count: int
) -> NodesInGraph:
    """Return nodes injected into a single graph.

    Args:
        graph: clean; `y` holds the labels to move the targets away from.
        links: `injected_edges` [2, e].
        threat: gives the targets.
        model: the objective is averaged over its members.
        count: n, number of injected nodes.
    """
    nothing = graph.x.new_zeros((count, graph.x.shape[1]))
    attacked = apply(graph, Perturbation(injected_x=nothing, injected_edges=links))
    maps = tuple(
        member.with_injected(graph.x, attacked.edge_index, count, threat.targets)
        for member in members(model)
    )
    return NodesInGraph(graph, links, threat.targets, maps)


@dataclass(frozen=True, eq=False)
class NodesInGraph:
    """`PlacedNodes` in a single graph.

    Attributes:
        graph: clean.
        links: `injected_edges` [2, e].
        targets: int64 [t].
        maps: of each member of the model, from injected features [n, d] to targets' logits [t, c].
    """

    graph: Data
    links: Tensor
    targets: Tensor
    maps: tuple[LogitsOfFeatures, ...]

    def best_features(
        self,
        start: Tensor,
        step: Step,
        settings: FeatureSearchSettings,
        moves: Tensor | None = None,
    ) -> Tensor:
        """See `PlacedNodes`."""
        return maximise(
            self.objective(settings, start.shape[0]),
            start,
            step=step,
            iterations=settings.iterations,
            patience=settings.patience,
            highest=math.inf if settings.harmony else highest_of(settings.objective),
            moves=moves,
        )

    def objective(self, settings: FeatureSearchSettings, count: int) -> Callable[[Tensor], Tensor]:
        """Return the map from injected features [count, d] to the scalar that an attack maximises.

        It is the objective over the targets plus `harmony` times the homophily of the injected
        nodes: the harmonious adversarial objective (HAO; Chen et al. 2022, equation 9).
        """
        labels, objective = self.graph.y[self.targets], objective_named(settings.objective)
        homophily = None
        if settings.harmony:
            homophily = homophily_of_features(self.graph, self.links, count)

        def value(features: Tensor) -> Tensor:
            values = [objective(logits_of(features), labels) for logits_of in self.maps]
            total = torch.stack(values).mean() if len(values) > 1 else values[0]
            return total if homophily is None else total + settings.harmony * homophily(features)

        return value

    def probabilities(self, features: Tensor) -> Tensor:
        """See `PlacedNodes`."""
        with torch.no_grad():
            return mean_probabilities([logits_of(features) for logits_of in self.maps])


def maximise(
    value_of: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    step: Step,
    iterations: int,
    patience: int | None,
    highest: float = math.inf,
    moves: Tensor | None = None,
) -> Tensor:
    """Return the best features found by gradient ascent, see `maximise_each`.

    Args:
        value_of: from features to a scalar.
        start: features [n, d] within their range.
    """
    return maximise_each(
        lambda groups: lambda features: value_of(features).reshape(1),
        start,
        torch.zeros(start.shape[0], dtype=torch.int64, device=start.device),
        count=1,
        step=step,
        iterations=iterations,
        patience=patience,
        highest=highest,
        moves=moves,
    )


def maximise_each(
    values_for: Callable[[Tensor], ValuesOfFeatures],
    start: Tensor,
    owners: Tensor,
    *,
    count: int,
    step: Step,
    iterations: int,
    patience: int | None,
    highest: float = math.inf,
    moves: Tensor | None = None,
    rounded: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Return the best features found by gradient ascent for groups that do not affect each other.

    With patience, each step of a group is `GROWTH` times as long as the one before if that led
    above all its values so far, and else `SHRINKAGE` times as long.

    Args:
        values_for: from groups int64 [h] to the map from features of their nodes, in the order of
            `start`, to the groups' values [h]. Called again when half of the groups have stopped.
        start: features [n, d] within their range.
        owners: int64 [n], the group of each row, 0 to `count` - 1.
        count: number of groups.
        step: from features, gradient and scales, 1 at first, to the next features, within their
            range.
        iterations: maximum number of steps.
        patience: a group stops when that many steps together gained no more than `MIN_GAIN`,
            relative to the objective's value (or to 1, if larger), or can gain no more; None:
            never, and all steps have the scale 1.
        highest: that the objective can reach.
        moves: bool [n], which rows may change; all if not given.
        rounded: if only some features are allowed: the allowed ones close to others. The best
            features are then those whose rounding has the highest value, while steps and their end
            follow from the values of the features themselves.

    Returns:
        float32 [n, d] on the device of `start`, not rounded.

    Raises:
        GradientError: the model gives no gradient.
        ModelError: the objective is not finite.
    """
    best, features = start.detach().clone(), start.detach()
    rows, groups = torch.arange(start.shape[0], device=start.device), owners.cpu()
    free = torch.ones((start.shape[0], 1)) if moves is None else moves.cpu()[:, None]
    enough = highest - _least_gain(highest) if math.isfinite(highest) else highest
    ascent = _Ascent.before(count, enough)
    value_of = values_for(ascent.groups)
    for iteration in range(iterations + 1):
        features.requires_grad_()
        with torch.enable_grad():
            values = value_of(features)
            total = values.sum()
        result = _finite(values, iteration)
        counted = result
        if rounded is not None:
            with torch.no_grad():
                counted = _finite(value_of(rounded(features)), iteration)
        further = (counted > ascent.top) & ~ascent.done
        ascent = ascent.after(result, counted, iteration, patience)
        taken = further[groups].to(start.device)
        best[rows[taken]] = features.detach()[taken]
        if iteration == iterations or bool(ascent.done.all()):
            break
        (gradient,) = gradients(total, features)
        scale = ascent.scale[groups][:, None] * free[rows.cpu()]
        features = step(features.detach(), gradient, scale)
        going = ~ascent.done
        if 2 * int(going.sum()) <= going.numel():
            active = going[groups]
            groups = (going.cumsum(0) - 1)[groups[active]]
            rows, features = rows[active.to(rows.device)], features[active.to(rows.device)]
            ascent = ascent.at(going)
            value_of = values_for(ascent.groups)
    return best.to(torch.float32)


@dataclass(frozen=True, eq=False)
class _Ascent:
    """The state of the ascent of each group: tensors [h] on the CPU, because they decide.

    Attributes:
        groups: int64.
        top: float64, the highest value that counts so far.
        best: float64, the highest value so far; another one if values are rounded.
        milestone: float64, the last value that was a gain.
        reached: int64, the iteration of that value.
        scale: float64, of the next step.
        done: bool, whether the group has stopped.
        highest: that a value can reach, less the least gain.
    """

    groups: Tensor
    top: Tensor
    best: Tensor
    milestone: Tensor
    reached: Tensor
    scale: Tensor
    done: Tensor
    highest: float

    @classmethod
    def before(cls, count: int, highest: float) -> _Ascent:
        """Return the state of `count` groups before the first value."""
        lowest = torch.full((count,), -math.inf, dtype=torch.float64)
        groups = torch.arange(count)
        return cls(
            groups, lowest, lowest, lowest, groups * 0, torch.ones_like(lowest), groups < 0, highest
        )

    def after(
        self, values: Tensor, counted: Tensor, iteration: int, patience: int | None
    ) -> _Ascent:
        """Return the state after values, and those that count, float64 [h]."""
        further = values > self.best
        # The first milestone is minus infinity, of which no share can be taken.
        gains = (values > self.milestone + _least_gains(self.milestone)) | (iteration == 0)
        milestone = torch.where(gains, values, self.milestone)
        reached = torch.where(gains, iteration, self.reached)
        scale, done = self.scale, self.done
        if patience is not None:
            if iteration:
                grown = (GROWTH * scale).clamp(max=LARGEST)
                scale = torch.where(further, grown, SHRINKAGE * scale)
            done = done | (iteration - reached >= patience) | (values >= self.highest)
        best, top = torch.maximum(values, self.best), torch.maximum(counted, self.top)
        return replace(
            self, top=top, best=best, milestone=milestone, reached=reached, scale=scale, done=done
        )

    def at(self, some: Tensor) -> _Ascent:
        """Return the state of some groups, bool [h]."""
        return _Ascent(
            self.groups[some],
            self.top[some],
            self.best[some],
            self.milestone[some],
            self.reached[some],
            self.scale[some],
            self.done[some],
            self.highest,
        )


def _finite(values: Tensor, iteration: int) -> Tensor:
    """Return values float64 [h] on the CPU; refuse those that are not finite."""
    result = values.detach().cpu().double()
    if not bool(result.isfinite().all()):
        score = float(result[~result.isfinite()][0])
        msg = f"the model's output gave an objective of {score} at attack step {iteration}"
        raise ModelError(f"{msg}; check the model for NaN and infinity on larger graphs")
    return result


def _least_gain(value: float) -> float:
    return MIN_GAIN * max(1.0, abs(value))


def _least_gains(values: Tensor) -> Tensor:
    return MIN_GAIN * values.abs().clamp(min=1.0)


def gradients(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Return the gradient of a scalar with respect to each input, with 0 for non-finite entries.

    Raises:
        GradientError: there is no gradient, the backward pass fails, or the gradient has non-finite
            entries and is 0 elsewhere.
    """
    result: tuple[Tensor | None, ...] = (None,)
    if value.requires_grad:
        try:
            result = torch.autograd.grad(value, inputs, allow_unused=True)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            msg = (
                f"the model's backward pass fails ({type(error).__name__}: {one_line(error)}); "
                f"make it differentiable with respect to x, or leave the attack out"
            )
            raise GradientError(msg) from error
    if any(gradient is None for gradient in result):
        msg = (
            "the model's output has no gradient with respect to x, which this attack needs; "
            "remove torch.no_grad, detach or numpy from its forward pass, or leave the attack out"
        )
        raise GradientError(msg)
    given = tuple(gradient for gradient in result if gradient is not None)
    if all(bool(gradient.isfinite().all()) for gradient in given):
        return given
    finite = tuple(
        torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0) for gradient in given
    )
    if not any(bool(gradient.any()) for gradient in finite):
        msg = (
            "the gradient of the model's output with respect to x is nowhere finite and non-zero; "
            "look in its forward pass for log, sqrt or a division at 0, or leave the attack out"
        )
        raise GradientError(msg)
    return finite
