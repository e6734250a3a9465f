"""Perturbations of a trial: made on surrogates, or on a model, and verified."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.attacks import perturb
from grb_check.attacks.modification.shared.edge_set import mask_of
from grb_check.attacks.names import base_name
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.referee import verify
from grb_check.attacks.scenarios import POISONING
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.attacks.user_attacks import UserAttack
from grb_check.datasets.dataset import Dataset
from grb_check.errors import BudgetError
from grb_check.evaluation.store_keys import (
    ATTACK_SEEDS,
    pack_of,
    perturbation_key,
    request_of,
)
from grb_check.evaluation.surrogates import Ensemble
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.unit_space import (
    from_units,
    graph_in_units,
    model_in_units,
    threat_in_units,
)
from grb_check.store.pack import Pack, lacking
from grb_check.user_code.randomness import derive_seed, isolated_randomness


def on_surrogates(trial: Trial) -> tuple[Perturbation, bool]:
    """Return the verified black-box perturbation, and whether it was made before.

    Repeat r has that of the seed r mod `ATTACK_SEEDS`. It is that of the run's pack if there is
    one, else the one that is shipped, else that of the store.

    Raises:
        BudgetError: the attack did more than its threat allows.
        UsageError: the run has a pack, which lacks the perturbation or is damaged.
    """
    harness_models, trial = trial.harness, replace(trial, seed=trial.seed % ATTACK_SEEDS)
    pack = pack_of(trial)
    if pack is not None:
        return _from_pack(pack, trial), True
    key = perturbation_key(trial)
    if key is None:
        return attack_surrogates(trial), False
    with harness_models.store.lock(key):
        stored = harness_models.store.load_perturbation(key)
        if stored is not None:
            try:
                verify(stored, harness_models.dataset.graph, trial.threat)
                return stored, True
            except BudgetError as error:
                harness_models.store.discard(key, str(error))
        perturbation = attack_surrogates(trial)
        harness_models.store.save_perturbation(key, perturbation)
    return perturbation, False


def _from_pack(pack: Pack, trial: Trial) -> Perturbation:
    requested = request_of(trial)
    try:
        perturbation = pack.perturbation(requested, trial.harness.dataset.graph, trial.threat)
    except BudgetError as error:
        raise BudgetError(f"pack {str(pack.path)!r}, {requested.cell}: {error}") from None
    if perturbation is None:
        raise lacking(pack, {trial.case.id: [requested]})
    return perturbation


def attack_surrogates(trial: Trial) -> Perturbation:
    """Make a black-box perturbation, whatever the store and packs have."""
    dataset = trial.harness.dataset
    surrogates = trial.harness.surrogates_of(trial.attack)
    if len(surrogates) == 1:
        view = _view(trial, surrogates[0].predicted, _known(trial))
        return _attack(trial, surrogates[0].victim, view)
    ensemble = Ensemble(tuple(surrogate.victim for surrogate in surrogates))
    guessed = predict(ensemble, dataset.graph, trial.seed)
    return _attack(trial, ensemble, _view(trial, guessed, _known(trial)))


def _known(trial: Trial) -> Tensor:
    """Nodes whose labels every attacker knows, int64 [k]: also targets of a recall, and his own."""
    dataset = trial.harness.dataset
    of_recall = isinstance(dataset, Dataset) and dataset.recall is not None
    targets = trial.threat.targets.to(dataset.labelled.device)
    knows = of_recall or trial.threat.ends is not None
    return torch.cat([dataset.labelled, targets]) if knows else dataset.labelled


def on_model(trial: Trial, model: TrainedModel) -> Perturbation:
    """Attack the model itself, with the true labels of the whole split.

    Raises:
        BudgetError: the attack did more than its threat allows.
        ModelError: the model lacks what the attack needs, such as a gradient.
    """
    victim = model.for_searches(trial.harness.dataset.graph)
    return _attack(trial, victim, white_box_view(trial, model))


def white_box_view(trial: Trial, model: TrainedModel) -> Data:
    """Return a copy of the graph with the true labels of the whole split."""
    dataset = trial.harness.dataset
    return _view(trial, model.predicted, torch.cat([dataset.labelled, dataset.tested]))


def _view(trial: Trial, guessed: Tensor, known: Tensor) -> Data:
    """Return a copy of the graph as an attack is shown it.

    Args:
        trial: of the attack.
        guessed: int64 [num_nodes] or [num_graphs], labels that the attack is shown ...
        known: ... except at these indices, int64 [k], where it is shown the true ones.
    """
    clean = trial.harness.dataset.graph
    graph = clean.clone()
    graph.y = guessed.to(clean.y.device, copy=True)
    known = known.to(clean.y.device)
    graph.y[known] = clean.y[known]
    if trial.attack.scenario == POISONING:
        dataset = cast(Dataset, trial.harness.dataset)
        graph.train_mask = mask_of(dataset.train, clean.num_nodes)
        graph.inductive = not dataset.transductive
    return graph


def _attack(trial: Trial, model: DifferentiableModel, graph: Data) -> Perturbation:
    """Run the attack on a view of the graph, and verify its perturbation.

    Args:
        trial: with the attack.
        model: for it to differentiate through.
        graph: that the attack is shown, and may write into.
    """
    clean = trial.harness.dataset.graph
    threat = _aimed(trial).copied_to(clean.x.device)  # it may write into it
    seed = seed_of("attack", trial)
    generator = torch.Generator().manual_seed(seed)
    # A victim may draw from the global states in its forward, with dropout left on.
    with isolated_randomness(seed):
        if isinstance(trial.attack, UserAttack):  # which gets the features as they are
            perturbation = perturb(trial.attack, graph, threat, model, generator)
        else:
            asked = graph_in_units(threat, graph), threat_in_units(threat)
            in_units = perturb(trial.attack, *asked, model_in_units(threat, model), generator)
            perturbation = from_units(trial.threat, in_units)
    try:
        verify(perturbation, clean, trial.threat)
    except BudgetError as error:
        name = f"{trial.case.scenario}/{trial.case.attack}"
        raise BudgetError(f"attack {name}: {error}") from None
    return perturbation


def _aimed(trial: Trial) -> Threat:
    """Return the threat as the attack gets it.

    The targets of evasion that is replayed in what models learn are the nodes that are there.
    """
    dataset = trial.harness.dataset
    replayed = trial.poisons and trial.attack.scenario != POISONING
    if replayed and isinstance(dataset, Dataset) and not dataset.transductive:
        return replace(trial.threat, targets=dataset.train)
    return trial.threat


def seed_of(purpose: str, trial: Trial) -> int:
    """Return the seed of an attack in its repeat.

    It does not depend on modifiers and budget, so that an attack and its variants start from the
    same random draws; nor on whether the attack is replayed as poisoning.
    """
    case = trial.case
    cell = f"{case.difficulty}/{trial.attack.scenario}/{base_name(case.attack)}"
    return derive_seed(purpose, cell, trial.seed)
