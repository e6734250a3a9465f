"""Types of the edges that an attack adds to data whose edges have types.

A search asks a model whose new edges have the types that are commonest at their ends, or all one
type, or at each target the one under which it was the worst off before. (our choice; papers attack
graphs without types)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import torch
from torch import Tensor

from grb_check.attacks.objectives import margins_of
from grb_check.attacks.threat import BY_ENDS, Perturbation
from grb_check.datasets.new_edge_types import INJECTED, types_at
from grb_check.evaluation.attempts import Attempt
from grb_check.evaluation.scores import answers_after
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial

MOST_TYPES: Final = 4  # that are tried, the commonest; each costs an attack
DELETIONS: Final = "deletions"  # of an attack's setting `restrict`


class Found(NamedTuple):
    """What an attack or a search makes of a model.

    Attributes:
        perturbations: the strongest first; none if there is no gradient to follow ...
        reason: ... and why.
        left: share of the targets that the first leaves right; 1 if there is none.
    """

    perturbations: list[Perturbation]
    reason: str
    left: float


def weakest(
    trial: Trial, model: TrainedModel, attack: Callable[[TrainedModel], Found]
) -> tuple[TrainedModel, Found]:
    """Return the model with the types of new edges under which an attack leaves least, and that.

    The model itself, if types are not chosen, or if nothing is left of it. No further types are
    tried once nothing is left.
    """
    tried = [(model, attack(model))]

    def least() -> tuple[TrainedModel, Found]:
        return min(tried, key=lambda one: one[1].left)

    for of_type in _of_each_type(trial, model, tried[0][1].perturbations):
        if least()[1].left:
            tried.append((of_type, attack(of_type)))
    if least()[1].left:
        ranked = sorted(tried[1:], key=lambda one: one[1].left)
        found = [(one, made.perturbations[0]) for one, made in ranked if made.perturbations]
        of_worst = _of_worst_types(trial, model, found)
        if of_worst is not None:
            tried.append((of_worst, attack(of_worst)))
    return least()


def _of_each_type(
    trial: Trial, model: TrainedModel, found: Sequence[Perturbation]
) -> list[TrainedModel]:
    """Return the model for each type that all new edges may have, the commonest first.

    Empty if the attack chooses no types, can add no edge, or has chosen those of all new edges of
    what was found; or if the model does not take types.
    """
    given = trial.harness.dataset.given_edges
    fixed = getattr(trial.attack, "restrict", "") == DELETIONS or any(map(_has_types, found[:1]))
    if fixed or not trial.threat.edge_types or given is None or given.types is None:
        return []
    size = trial.harness.dataset.num_nodes
    wanted = torch.full((size + 1,), BY_ENDS)
    types = given.types.by_frequency[:MOST_TYPES]
    made = [_of_types(model, wanted.index_fill(0, torch.tensor([size]), kind)) for kind in types]
    return [one for one in made if one is not None]


def _has_types(perturbation: Perturbation) -> bool:
    """Whether a perturbation, of a user's attack, has a type for each new edge."""
    types = perturbation.added_types
    return bool(types.numel()) and bool((types != BY_ENDS).all())


def _of_worst_types(
    trial: Trial, model: TrainedModel, found: Sequence[tuple[TrainedModel, Perturbation]]
) -> TrainedModel | None:
    """Return the model for the type at each target under which its margin was lost most clearly.

    Args:
        trial: of the attack.
        model: of whose new edges the types follow from their ends.
        found: the model for a type, and the perturbation that was found for it; the first of those
            under which a target is equally badly off counts, and for edges at no target.

    Returns:
        None if it is the same type at all targets, or if nothing was found.
    """
    if not found:
        return None
    margins = torch.stack([margins_of(*answers_after(trial, *one)) for one in found]).cpu()
    types = torch.stack([_types_of(of_type)[-1] for of_type, _ in found])
    at_targets = types[margins.argmax(dim=0)]
    if bool((at_targets == types[0]).all()):
        return None
    wanted = torch.full((trial.harness.dataset.num_nodes + 1,), BY_ENDS)
    wanted[trial.threat.targets.cpu()] = at_targets
    wanted[-1] = types[0]
    return _of_types(model, wanted)


def _of_types(model: TrainedModel, wanted: Tensor) -> TrainedModel | None:
    """The model with types int64 [N + 1] of new edges, see `GivenEdges.with_types_at`; made once.

    None if it does not take types.
    """
    key = wanted.numpy().tobytes()
    if key not in model.of_types:
        victim = model.victim.with_types_at(wanted)
        if victim is None:
            return None
        made = TrainedModel(victim, model.predicted)
        made.new_types = wanted
        model.of_types[key] = made
    return model.of_types[key]


def _types_of(model: TrainedModel) -> Tensor:
    assert model.new_types is not None
    return model.new_types


def typed(attempt: Attempt, model: TrainedModel) -> Attempt:
    """Return an attempt on one of these models as one on the model that they were made of."""
    if model.new_types is None:
        return attempt
    perturbation = attempt.perturbation
    second = perturbation.injected_edges[1]
    second = torch.where(second < model.new_types.numel() - 1, second, INJECTED)
    links = torch.stack([torch.full_like(second, INJECTED), second])
    ends = torch.cat([perturbation.added_edges, links], dim=1)
    own = torch.cat(perturbation.types_of_new())  # of a user's attack, which go before
    types = torch.where(own != BY_ENDS, own, types_at(model.new_types, *ends))
    chosen = sorted({*types.tolist()} - {BY_ENDS})
    note = f"new edges of edge_type {', '.join(map(str, chosen))}, by the model's answers"
    notes = (*perturbation.notes, note) if chosen else perturbation.notes
    return Attempt(replace(perturbation, added_types=types, notes=notes), False, attempt.right)
