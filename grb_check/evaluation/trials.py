"""One attack in one repeat: who sees what, what is stored, and what it cost two models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.names import base_name
from grb_check.attacks.protocol import Attack, DifferentiableModel
from grb_check.attacks.registry import describe
from grb_check.attacks.threat import Perturbation, Threat, apply, verify
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Finding, Method, Scores
from grb_check.datasets.dataset import digest
from grb_check.errors import BudgetError
from grb_check.evaluation.diagnostics import budget_unused
from grb_check.evaluation.own_models import OwnModels, Ready, predict, surrogate_seed
from grb_check.evaluation.surrogates import Ensemble, kinds_for
from grb_check.user_code.randomness import derive_seed, isolated_randomness

Right: TypeAlias = NDArray[np.bool_]

# Raised whenever the same models, attack, data and seed come to give other figures: by what attacks
# differentiate through (edge weights, message masks, factors of pairs), the search by a model's
# answers, the threat, seeds, or the measuring. It is part of names on disk.
PROTOCOL: Final = 1


@dataclass(frozen=True)
class Trial:
    """An attack, what it may do, and in which repeat."""

    own: OwnModels
    attack: Attack
    threat: Threat
    case: Case
    seed: int


@dataclass(frozen=True)
class Measured:
    """A perturbation of the victim's graph, where it came from, and what it cost.

    Attributes:
        perturbation: that the victim faced.
        from_store: whether the store had it.
        victim: which targets were right.
        reference: which were with the reference GCN.
        method: how it was found, see `Measurement`.
        notes: what finding it wants said, beside its own notes.
        diagnostics: reasons to doubt that it is strong enough.
    """

    perturbation: Perturbation
    from_store: bool
    victim: Scores
    reference: Scores
    method: Method = "black-box"
    notes: tuple[str, ...] = ()
    diagnostics: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class _Knowledge:
    """What an attack is shown.

    Attributes:
        model: what it may differentiate through.
        guessed: int64 [num_nodes], the labels of all nodes ...
        known: ... but of these, whose true labels it sees.
    """

    model: DifferentiableModel
    guessed: Tensor
    known: Sequence[Tensor]


def black_box(trial: Trial, ready: Ready) -> Measured:
    """Attack the surrogates; victim and reference both face what came of it.

    The attack sees true labels of training and validation nodes alone. The perturbation depends on
    no victim, and is stored.

    Raises:
        BudgetError: the attack did more than its threat allows.
    """
    perturbation, from_store = on_surrogates(trial)
    attacked = apply(trial.own.dataset.graph, perturbation)
    return Measured(
        perturbation,
        from_store,
        victim=scores(right_before(trial, ready), right_after(trial, ready, attacked)),
        reference=_reference_scores(trial, perturbation, attacked),
        diagnostics=unused(trial, perturbation),
    )


def on_surrogates(trial: Trial) -> tuple[Perturbation, bool]:
    """The verified black-box perturbation, and whether the store had it.

    Raises:
        BudgetError: the attack did more than its threat allows.
    """
    own = trial.own
    description = describe(trial.attack)
    if description is None:
        return _attack_surrogates(trial), False
    key = own.store.key(
        kind="perturbation",
        protocol=PROTOCOL,
        dataset=own.fingerprint,
        surrogate="; ".join(own.recipe(kind) for kind in kinds_for(trial.attack)),
        surrogate_seed=surrogate_seed(),
        attack=description,
        threat=describe_threat(trial.threat),
        difficulty=trial.case.difficulty,
        seed=trial.seed,
    )
    with own.store.lock(key):
        stored = own.store.load_perturbation(key)
        if stored is not None:
            try:
                verify(stored, own.dataset.graph, trial.threat)
                return stored, True
            except BudgetError as error:
                own.store.discard(key, str(error))
        perturbation = _attack_surrogates(trial)
        own.store.save_perturbation(key, perturbation)
    return perturbation, False


def _attack_surrogates(trial: Trial) -> Perturbation:
    dataset = trial.own.dataset
    ready = [trial.own.surrogate(kind) for kind in kinds_for(trial.attack)]
    known = (dataset.labelled,)
    if len(ready) == 1:
        return _attack(trial, _Knowledge(ready[0].victim, ready[0].predicted, known))
    ensemble = Ensemble(tuple(each.victim for each in ready))
    guessed = predict(ensemble, dataset.graph, trial.seed)
    return _attack(trial, _Knowledge(ensemble, guessed, known))


def on_model(trial: Trial, ready: Ready) -> Perturbation:
    """What the attack makes of the model itself, seeing the true labels of the whole split.

    Raises:
        BudgetError: the attack did more than its threat allows.
        ModelError: it needs of the model what that does not have, such as a gradient.
    """
    dataset = trial.own.dataset
    known = (dataset.labelled, dataset.test["full"])
    return _attack(trial, _Knowledge(ready.victim, ready.predicted, known))


def _attack(trial: Trial, knowledge: _Knowledge) -> Perturbation:
    """Let the attack do its work on a copy of the graph, and verify what it did."""
    clean = trial.own.dataset.graph
    graph = clean.clone()
    graph.y = knowledge.guessed.to(clean.y.device, copy=True)
    known = torch.cat(list(knowledge.known)).to(clean.y.device)
    graph.y[known] = clean.y[known]
    on_device = _at_hand(trial.threat, clean.x.device)
    seed = seed_of("attack", trial)
    generator = torch.Generator().manual_seed(seed)
    # A victim may draw from the global states in its forward, with dropout left on.
    with isolated_randomness(seed):
        perturbation = trial.attack.perturb(graph, on_device, knowledge.model, generator)
    try:
        verify(perturbation, clean, trial.threat)
    except BudgetError as error:
        name = f"{trial.case.scenario}/{trial.case.attack}"
        raise BudgetError(f"attack {name}: {error}") from None
    return perturbation


def seed_of(purpose: str, trial: Trial) -> int:
    """The seed of an attack in its repeat.

    It does not depend on modifiers and budget: an attack and its variants start from the same
    draws, however spelled, and what they do differently is all that differs.
    """
    case = trial.case
    cell = f"{case.difficulty}/{case.scenario}/{base_name(case.attack)}"
    return derive_seed(purpose, cell, trial.seed)


def _at_hand(threat: Threat, device: torch.device) -> Threat:
    """A copy of the threat for the attack, its tensors where the graph is."""

    def copied(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.to(device, copy=True)

    return replace(
        threat,
        targets=threat.targets.to(device, copy=True),
        batch=copied(threat.batch),
        edge_budgets=copied(threat.edge_budgets),
    )


def _reference_scores(trial: Trial, perturbation: Perturbation, attacked: Data) -> Scores:
    """How the reference GCN of this repeat fares under the perturbation; kept beside it."""
    own = trial.own
    key = own.store.key(
        kind="reference",
        protocol=PROTOCOL,
        dataset=own.fingerprint,
        recipe=own.recipe("gcn"),
        perturbation=digest([*perturbation.tensors(), trial.threat.targets]),
        seed=trial.seed,
    )
    stored = stored_scores(trial, key)
    if stored is not None:
        return stored
    ready = own.reference(trial.seed)
    return save_scores(trial, key, right_before(trial, ready), right_after(trial, ready, attacked))


def stored_scores(trial: Trial, key: str) -> Scores | None:
    """What `save_scores` kept under that key."""
    arrays = trial.own.store.load_arrays(key)
    if arrays is None or arrays["right"].shape != (2, int(trial.threat.targets.numel())):
        return None
    return scores(*arrays["right"])


def save_scores(trial: Trial, key: str, before: Right, after: Right) -> Scores:
    """Keep which targets were right, and return the scores."""
    trial.own.store.save_arrays(key, {"right": np.stack([before, after])})
    return scores(before, after)


def right_before(trial: Trial, ready: Ready) -> Right:
    """Which targets a model has right on the clean graph: bool [t]."""
    return _right(trial, ready.predicted)


def right_after(trial: Trial, ready: Ready, attacked: Data) -> Right:
    """Which it has right on the attacked one: bool [t]."""
    return _right(trial, predict(ready.victim, attacked, trial.seed))


def scores(before: Right, after: Right) -> Scores:
    """The figures of which targets were right before and after."""
    return Scores(
        clean=float(before.mean()),
        attacked=float(after.mean()),
        right_before=np.packbits(before).tobytes(),
        right_after=np.packbits(after).tobytes(),
    )


def unused(trial: Trial, perturbation: Perturbation) -> tuple[Finding, ...]:
    """What the diagnostic of the budget says, if anything."""
    second = perturbation.injected_edges[1]
    inner = int((second >= trial.own.dataset.num_nodes).sum())
    link_ends = int(second.numel()) + inner  # such a link counts for both of its ends
    found = budget_unused({**spent(perturbation), "link_ends": link_ends}, trial.threat)
    return () if found is None else (found,)


def spent(perturbation: Perturbation) -> dict[str, int]:
    """The sizes of its parts."""
    return {
        "added_edges": perturbation.added_edges.shape[1],
        "removed_edges": perturbation.removed_edges.shape[1],
        "injected_nodes": perturbation.injected_x.shape[0],
        "injected_edges": perturbation.injected_edges.shape[1],
        "modified_nodes": perturbation.modified_nodes.shape[0],
    }


def describe_threat(threat: Threat) -> str:
    """Everything of the threat but the targets, which follow from dataset and difficulty."""
    return repr(
        (
            threat.scenario,
            threat.edge_budget,
            threat.injected_nodes,
            threat.edges_per_injected_node,
            threat.feature_range,
            threat.modified_nodes,
        )
    ) + ("" if threat.edge_budgets is None else f" {digest([threat.edge_budgets])}")


def _right(trial: Trial, predicted: Tensor) -> Right:
    targets = trial.threat.targets.cpu()
    truth = trial.own.dataset.graph.y.cpu()
    right: Right = (predicted[targets] == truth[targets]).numpy()
    return right
