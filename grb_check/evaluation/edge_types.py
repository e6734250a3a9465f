"""Types of the edges that an attack adds to data whose edges have types.

A search asks a model whose new edges have the types that are commonest at their ends, or all one
type, or at each target the one under which it was the worst off before. (our choice; papers attack
graphs without types)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from grb_check.attacks.objectives import margins_of
from grb_check.attacks.threat import BY_ENDS, Perturbation
from grb_check.datasets.given_edges import INJECTED, types_at
from grb_check.evaluation.attempts import Attempt
from grb_check.evaluation.scores import answers_after
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial

MOST_TYPES: Final = 4  # that are tried, the commonest; each costs an attack


def of_each_type(trial: Trial, model: TrainedModel) -> list[TrainedModel]:
    """Return the model for each type that all new edges may have, the commonest first.

    Empty if the attack chooses no types, or if the model does not take them.
    """
    given = trial.harness.dataset.given_edges
    if not trial.threat.edge_types or given is None or given.types is None:
        return []
    size = trial.harness.dataset.num_nodes
    types = given.types.by_frequency[:MOST_TYPES]
    made = [_of_types(model, torch.full((size,), edge_type)) for edge_type in types]
    return [one for one in made if one is not None]


def of_worst_types(
    trial: Trial, model: TrainedModel, tried: Sequence[tuple[TrainedModel, Perturbation]]
) -> TrainedModel | None:
    """Return the model for the type at each target under which its margin was lost most clearly.

    Args:
        trial: of the attack.
        model: of whose new edges the types follow from their ends.
        tried: the model for a type, and the perturbation that was found for it; the first of those
            under which a target is equally badly off counts, and at nodes that are no targets.

    Returns:
        None if it is the same type at all targets, or if nothing was found.
    """
    if not tried:
        return None
    margins = torch.stack([margins_of(*answers_after(trial, *one)) for one in tried]).cpu()
    types = torch.stack([_types_of(of_type)[0] for of_type, _ in tried])
    at_targets = types[margins.argmax(dim=0)]
    if bool((at_targets == types[0]).all()):
        return None
    wanted = types[0].repeat(trial.harness.dataset.num_nodes)
    wanted[trial.threat.targets.cpu()] = at_targets
    return _of_types(model, wanted)


def _of_types(model: TrainedModel, wanted: Tensor) -> TrainedModel | None:
    """The model where new edges at nodes have the types wanted there, int64 [N]; made once."""
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
    wanted = torch.cat([model.new_types, torch.tensor([BY_ENDS])])  # the last row is of new nodes
    second = perturbation.injected_edges[1]
    second = torch.where(second < model.new_types.numel(), second, INJECTED)
    links = torch.stack([torch.full_like(second, INJECTED), second])
    ends = torch.cat([perturbation.added_edges, links], dim=1)
    own = torch.cat(perturbation.types_of_new())  # of a user's attack, which goes before
    types = torch.where(own != BY_ENDS, own, types_at(wanted, *ends))
    return attempt._replace(perturbation=replace(perturbation, added_types=types))


def words_of(perturbation: Perturbation) -> str:
    """Return which types new edges have; empty if all follow from their ends."""
    types = sorted({*perturbation.added_types.tolist()} - {BY_ENDS})
    if not types:
        return ""
    return f"new edges of edge_type {', '.join(map(str, types))}, by the model's answers"
