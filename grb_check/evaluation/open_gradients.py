"""The model whose gradients an attack follows: the victim, or its forward without its stops.

Or without its steps: where it has no gradient at all, since it rounds or votes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.protocol import model_on
from grb_check.attacks.threat import Perturbation, apply
from grb_check.errors import ModelError
from grb_check.evaluation.gradient_checks import (
    Kind,
    Margins,
    NoMargins,
    doubtful,
    gradient_of,
    injected_nodes,
    sampled_margins,
)
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.unit_space import graph_in_units, model_in_units
from grb_check.gradients.averaging import averages, have_effect
from grb_check.gradients.injected_rows import RowForm
from grb_check.gradients.layer_factors import LayerFactors
from grb_check.gradients.straight_through import has_steps, straight_through
from grb_check.gradients.trial import KINKS, NOISE, distance
from grb_check.gradients.victim import Victim
from grb_check.gradients.without_stops import has_stops, without_stops
from grb_check.user_code.randomness import isolated_randomness

OPENED = "its forward stops gradients; those of the same values without the stops were followed"


def followed(
    trial: Trial, victim: TrainedModel, shown: Sequence[Perturbation], kind: Kind
) -> TrainedModel:
    """Return the victim, or the same model without what stops its gradients, see `without_stops`.

    The latter if it has the same values on the clean graph and on those given, and another gradient
    there, which predicts changes more often than the model's own, or as always. A softmax that
    detaches its maximum has the same gradient; a straight-through estimator has none without it.

    Args:
        trial: of the attack.
        victim: the model under test.
        shown: perturbations at which both are compared.
        kind: what the attack differentiates by.
    """
    opened = _opened(trial, victim)
    if opened is victim:
        return victim
    clean = trial.harness.dataset.graph
    together = (perturbation for perturbation in shown if not perturbation.flip_targets.numel())
    attacked = [apply(clean, perturbation) for perturbation in together]
    sides = [
        [_margins_at(trial, model, graph, kind) for graph in attacked] for model in (victim, opened)
    ]
    pairs = list(zip(*sides, strict=True))
    if not all(
        _same_logits(trial, victim, opened, graph, pair)
        for graph, pair in zip(attacked, pairs, strict=True)
    ):
        return victim
    if all(_same_gradients(*pair) for pair in pairs):
        return victim
    own, other = (sum(map(doubtful, side)) for side in sides)
    return opened if other < own or other == own == 0.0 else victim


def without_steps(
    trial: Trial, victim: TrainedModel, shown: Sequence[Perturbation]
) -> Victim | None:
    """Return the victim with a gradient where it makes steps, or votes.

    See `straight_through` and `averages`. None if it does neither, or if there is still no gradient
    in the features of injected nodes.

    Args:
        trial: of an injection attack.
        victim: the model under test.
        shown: perturbations, at which the gradient is looked at.
    """
    if not isinstance(victim.victim, Victim):
        return None
    clean, inner = trial.harness.dataset.graph, victim.victim
    try:
        if not any(
            some(lambda: inner.adapter(clean.x, clean.edge_index))
            for some in (has_steps, have_effect)
        ):
            return None
    except ModelError:
        return None
    softened = replace(
        inner,
        adapter=replace(inner.adapter, within=_without_steps),
        layer_factors=LayerFactors(),
        row_form=RowForm(),
    )
    if inner.probabilities:  # whose logarithm has no gradient where they are 0
        softened = replace(softened, probabilities=False, unit=1.0, offset=None)
    known = TrainedModel(softened, victim.predicted)
    attacked = [apply(clean, perturbation) for perturbation in shown]
    margins = (_margins_at(trial, known, graph, "features") for graph in attacked)
    return softened if any(gradient_of(some) is not None for some in margins) else None


@contextmanager
def _without_steps() -> Iterator[None]:
    # In this order the others themselves can detach.
    with averages(), straight_through(), without_stops():
        yield


def _opened(trial: Trial, victim: TrainedModel) -> TrainedModel:
    """The model without its stops, made once; itself if it has none, or is another without them."""
    if victim.opened is None:
        victim.opened = _without_its_stops(trial, victim) or victim
    return victim.opened


def _without_its_stops(trial: Trial, victim: TrainedModel) -> TrainedModel | None:
    """The model without its stops; None if it has none, fails, or is another on clean data."""
    clean, inner = trial.harness.dataset.graph, victim.victim
    if not isinstance(inner, Victim):
        return None
    x = clean.x.clone().requires_grad_()
    try:
        with isolated_randomness(trial.seed):
            if not has_stops(lambda: inner.adapter(x, clean.edge_index)):
                return None
    except ModelError:  # numpy refuses a tensor with a gradient
        return None
    adapter = replace(inner.adapter, within=without_stops)
    # Forms that passed a trial with the stops are of another gradient.
    untried = replace(inner, adapter=adapter, layer_factors=LayerFactors(), row_form=RowForm())
    opened = TrainedModel(untried, victim.predicted)
    return opened if _same_values(victim, opened, clean, trial.seed) else None


def _same_values(first: TrainedModel, second: TrainedModel, graph: Data, seed: int) -> bool:
    try:
        values, others = (_logits(model, graph, seed) for model in (first, second))
    except ModelError:
        return False
    return _close(others, values)


def _close(others: Tensor, values: Tensor) -> bool:
    return distance(others, values) <= NOISE * float(values.abs().max())


def _logits(model: TrainedModel, graph: Data, seed: int) -> Tensor:
    with isolated_randomness(seed), torch.no_grad():
        return model_on(model.victim, graph)(graph.x, graph.edge_index)


def _same_logits(
    trial: Trial,
    first: TrainedModel,
    second: TrainedModel,
    graph: Data,
    at: tuple[Margins | NoMargins, Margins | NoMargins],
) -> bool:
    """Whether two models have the same values on an attacked graph: at the sampled targets."""
    own, other = at
    if isinstance(own, NoMargins) or isinstance(other, NoMargins):
        return _same_values(first, second, graph, trial.seed)
    return _close(other.logits.detach(), own.logits.detach())


def _same_gradients(first: Margins | NoMargins, second: Margins | NoMargins) -> bool:
    own, other = gradient_of(first), gradient_of(second)
    if own is None or other is None:
        return own is other
    return bool((other - own).norm() <= KINKS * own.norm())


def _margins_at(trial: Trial, model: TrainedModel, graph: Data, kind: Kind) -> Margins | NoMargins:
    """The margins of sampled targets on an attacked graph."""
    in_units = graph_in_units(trial.threat, graph)
    num_nodes = trial.harness.dataset.graph.num_nodes
    return sampled_margins(
        model_in_units(trial.threat, model.victim),
        in_units,
        trial.threat.targets,
        kind,
        injected_nodes(in_units, num_nodes) if kind == "features" else None,
    )
