"""One attack in one repeat: what it is shown, its perturbation, and what it costs the victim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.graph_sets.attacks import perturb
from grb_check.attacks.injection.blended_search import VERSION as BLENDS
from grb_check.attacks.injection.blended_search import can_search
from grb_check.attacks.modification.shared.edge_set import mask_of
from grb_check.attacks.names import base_name
from grb_check.attacks.protocol import Attack, DifferentiableModel
from grb_check.attacks.registry import describe
from grb_check.attacks.scenarios import POISONING
from grb_check.attacks.threat import Perturbation, Threat, verify
from grb_check.cases.case import Case
from grb_check.cases.findings import Finding
from grb_check.cases.outcomes import MAIN_REFERENCE, Measurement, Method, Reference, Scores
from grb_check.cases.repeat_results import AttackedBy, CaseFacts, RepeatResult
from grb_check.datasets.dataset import Dataset, digest
from grb_check.errors import BudgetError
from grb_check.evaluation.after_attack import predicted_after, predicted_if_poisoned
from grb_check.evaluation.diagnostics import budget_unused
from grb_check.evaluation.harness_models import HarnessModels, surrogate_seed
from grb_check.evaluation.perturbation_bytes import to_bytes
from grb_check.evaluation.shipped import shipped_references
from grb_check.evaluation.surrogates import Ensemble, kinds_for, references_on
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.store.pack import Pack, PerturbationRequest, lacking, shipped_pack
from grb_check.user_code.randomness import derive_seed, isolated_randomness

Right: TypeAlias = NDArray[np.bool_]

# Raised whenever the same models, attack, data and seed give other figures: because of what attacks
# differentiate through (edge weights, factors of pairs), the search by queries, the
# threat, seeds, or the measuring. It is part of names on disk.
PROTOCOL: Final = 2
ATTACK_SEEDS: Final = 5


@dataclass(frozen=True)
class Trial:
    """An attack, its threat, the case that it belongs to, and the seed of the repeat.

    Attributes:
        harness: surrogates and references, with the dataset and the store.
        attack: to run.
        threat: what it may do.
        case: for seeds and messages; of a member of `worst` with the member's name.
        seed: of the repeat.
    """

    harness: HarnessModels
    attack: Attack
    threat: Threat
    case: Case
    seed: int

    @property
    def poisons(self) -> bool:
        """Whether the perturbation is in the graph before models are trained."""
        return self.case.scenario == POISONING


def black_box(
    trial: Trial, victim: TrainedModel, kinds: Sequence[str] = (MAIN_REFERENCE,)
) -> RepeatResult:
    """Attack the surrogates, and apply the perturbation to the victim.

    The attack sees true labels of training and validation nodes only. Its perturbation does not
    depend on the victim, and is stored.

    Args:
        trial: the attack in its repeat.
        victim: the model under test.
        kinds: of the references to attack as well.

    Raises:
        BudgetError: the attack did more than its threat allows.
    """
    perturbation, from_store = on_surrogates(trial)
    after = right_after(trial, victim, perturbation)
    references = black_box_references(trial, perturbation, kinds)
    return measured(trial, victim, perturbation, from_store, after, references)


def measured(
    trial: Trial,
    victim: TrainedModel,
    perturbation: Perturbation,
    from_store: bool,
    after: Right,
    references: Mapping[str, Scores],
    *,
    method: Method = "black-box",
    methods: tuple[Method, ...] = (),
    notes: tuple[str, ...] = (),
    diagnostics: tuple[Finding, ...] = (),
) -> RepeatResult:
    """Put the result of a case in a repeat together.

    Args:
        trial: the attack in its repeat.
        victim: the model under test.
        perturbation: applied to it.
        from_store: whether the store had the perturbation.
        after: targets that the victim classifies correctly on the attacked graph, bool [t].
        references: scores of the references.
        method: source of the perturbation, see `Measurement`.
        methods: tried on the victim itself, see `AttackedBy`.
        notes: remarks beside those of the perturbation.
        diagnostics: findings beside that on the budget.

    Returns:
        A result whose times are 0; the caller knows them.
    """
    measurement = Measurement(
        seed=trial.seed,
        victim=scores(right_before(trial, victim), after),
        references=references,
        spent=spent(perturbation),
        from_store=from_store,
        seconds=0.0,
        training_seconds=0.0,
        notes=(*perturbation.notes, *notes),
        method=method,
        diagnostics=(*diagnostics, *_budget_finding(trial, perturbation)),
        pretrained=victim.pretrained,
        weights=victim.weights,
        perturbation=digest(perturbation.tensors())[:16],
    )
    return RepeatResult(
        facts=facts_of(trial, description_of(trial) or ""),
        measurement=measurement,
        warnings=victim.warnings,
        attacked_by=(AttackedBy(attack=trial.case.attack, methods=methods),),
        perturbation=to_bytes(perturbation),
    )


def facts_of(trial: Trial, described: str) -> CaseFacts:
    """Return what all repeats of a case have in common.

    Args:
        trial: of the case, or of a member of `worst`.
        described: the attack with its version and settings; empty if it has no version.
    """
    dataset, threat = trial.harness.dataset, trial.threat
    classes = dataset.graph.y.cpu()[threat.targets.cpu()]
    targets = int(threat.targets.numel())
    return CaseFacts(
        targets=targets,
        majority=int(classes.bincount().max()) / targets,
        dataset=trial.harness.fingerprint,
        origin=dataset.origin,
        attack=described,
        threat=describe_threat(threat),
        shipped=shipped_on(trial),
    )


def shipped_on(trial: Trial) -> Mapping[str, Reference]:
    """Return the references that are shipped for the case of a trial; empty if there are none.

    A run from a pack has other perturbations than these references.
    """
    return (
        {} if trial.harness.pack is not None else shipped_references().get(reference_key(trial), {})
    )


def reference_key(trial: Trial) -> str:
    """Return what shipped references are found by: all that their accuracies depend on."""
    harness_models = trial.harness
    recipes = "; ".join(map(harness_models.definition, references_on(harness_models.dataset)))
    return (
        f"protocol {PROTOCOL}, {harness_models.fingerprint}, {trial.case.difficulty}, "
        f"{trial.case.scenario}/{trial.case.attack}: {description_of(trial)}, "
        f"{describe_threat(trial.threat)}, {recipes}"
    )


def description_of(trial: Trial) -> str | None:
    """Return the attack of a trial with its version and settings, and its start from blends.

    None for an attack without a version, see `registry.describe`.
    """
    description = describe(trial.attack)
    return f"{description}, from blends v{BLENDS}" if starts_from_blends(trial) else description


def starts_from_blends(trial: Trial) -> bool:
    """Whether the attack on a model may also start from blends, see `fallbacks.from_blends`.

    A user's attack, or one that keeps injected nodes similar to their neighbours, may not.
    """
    white_box = trial.attack.knowledge == "white-box"
    return white_box and getattr(trial.attack, "harmony", None) == 0 and can_search(trial.threat)


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
    description = describe(trial.attack)
    if description is None:
        return attack_surrogates(trial), False
    key = harness_models.store.key(
        kind="perturbation",
        protocol=PROTOCOL,
        dataset=harness_models.fingerprint,
        surrogate=surrogate_source(trial),
        surrogate_seed=surrogate_seed(),
        attack=description,
        threat=describe_threat(trial.threat),
        difficulty=trial.case.difficulty,
        seed=trial.seed,
    )
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


def pack_of(trial: Trial) -> Pack | None:
    """Return the pack that has the black-box perturbation of a trial; None if it is made here."""
    if trial.harness.pack is not None:
        return trial.harness.pack
    pack = shipped_pack()
    return pack if request_of(trial) in pack.perturbations else None


def _from_pack(pack: Pack, trial: Trial) -> Perturbation:
    requested = request_of(trial)
    try:
        perturbation = pack.perturbation(requested, trial.harness.dataset.graph, trial.threat)
    except BudgetError as error:
        raise BudgetError(f"pack {str(pack.path)!r}, {requested.cell}: {error}") from None
    if perturbation is None:
        raise lacking(pack, {trial.case.id: [requested]})
    return perturbation


def request_of(trial: Trial) -> PerturbationRequest:
    """Return what a pack finds the black-box perturbation of a trial by."""
    return PerturbationRequest(
        fingerprint=trial.harness.fingerprint,
        difficulty=trial.case.difficulty,
        scenario=trial.case.scenario,
        attack=base_name(trial.case.attack),
        description=describe(trial.attack) or "",
        threat=describe_threat(trial.threat),
        seed=trial.seed % ATTACK_SEEDS,
        dataset=trial.case.dataset,
    )


def surrogate_source(trial: Trial) -> str:
    """Return the source of the black-box perturbations of a trial, as a part of store keys."""
    harness_models, pack = trial.harness, pack_of(trial)
    if pack is not None:
        return f"pack {pack.digest}"
    return "; ".join(harness_models.recipe(kind) for kind in kinds_for(trial.attack))


def attack_surrogates(trial: Trial) -> Perturbation:
    """Make a black-box perturbation, whatever the store and packs have."""
    dataset = trial.harness.dataset
    surrogates = [trial.harness.surrogate(kind) for kind in kinds_for(trial.attack)]
    if len(surrogates) == 1:
        view = _view(trial, surrogates[0].predicted, dataset.labelled)
        return _attack(trial, surrogates[0].victim, view)
    ensemble = Ensemble(tuple(surrogate.victim for surrogate in surrogates))
    guessed = predict(ensemble, dataset.graph, trial.seed)
    return _attack(trial, ensemble, _view(trial, guessed, dataset.labelled))


def on_model(trial: Trial, model: TrainedModel) -> Perturbation:
    """Attack the model itself, with the true labels of the whole split.

    Raises:
        BudgetError: the attack did more than its threat allows.
        ModelError: the model lacks what the attack needs, such as a gradient.
    """
    return _attack(trial, model.victim, white_box_view(trial, model))


def white_box_view(trial: Trial, model: TrainedModel) -> Data:
    """Return a copy of the graph with the true labels of the whole split."""
    dataset = trial.harness.dataset
    return _view(trial, model.predicted, torch.cat([dataset.labelled, dataset.test["full"]]))


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
    on_device = _aimed(trial).copied_to(clean.x.device)  # it may write into it
    seed = seed_of("attack", trial)
    generator = torch.Generator().manual_seed(seed)
    # A victim may draw from the global states in its forward, with dropout left on.
    with isolated_randomness(seed):
        perturbation = perturb(trial.attack, graph, on_device, model, generator)
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


def black_box_references(
    trial: Trial, perturbation: Perturbation, kinds: Sequence[str]
) -> dict[str, Scores]:
    """Scores of the references of this repeat under the perturbation, by kind; stored."""
    return {kind: _reference_scores(trial, perturbation, kind) for kind in kinds}


def _reference_scores(trial: Trial, perturbation: Perturbation, kind: str) -> Scores:
    harness_models = trial.harness
    key = harness_models.store.key(
        kind="poisoned reference" if trial.poisons else "reference",
        protocol=PROTOCOL,
        dataset=harness_models.fingerprint,
        recipe=harness_models.recipe(kind),
        perturbation=digest([*perturbation.tensors(), trial.threat.targets]),
        seed=trial.seed,
    )
    stored = stored_scores(trial, key)
    if stored is not None:
        return stored
    reference = harness_models.reference(kind, trial.seed)
    after = right_after(trial, reference, perturbation)
    return save_scores(trial, key, right_before(trial, reference), after)


def stored_scores(trial: Trial, key: str) -> Scores | None:
    """Return the scores that `save_scores` stored under the key, if any."""
    arrays = trial.harness.store.load_arrays(key)
    if arrays is None or arrays["right"].shape != (2, int(trial.threat.targets.numel())):
        return None
    return scores(*arrays["right"])


def save_scores(trial: Trial, key: str, before: Right, after: Right) -> Scores:
    """Store which targets were right, and return the scores."""
    trial.harness.store.save_arrays(key, {"right": np.stack([before, after])})
    return scores(before, after)


def right_before(trial: Trial, model: TrainedModel) -> Right:
    """Targets that a model classifies correctly on the clean graph, bool [t]."""
    return _right(trial, model.predicted[trial.threat.targets.cpu()])


def right_after(trial: Trial, model: TrainedModel, perturbation: Perturbation) -> Right:
    """Targets that a model classifies correctly after the attack, bool [t]."""
    dataset, targets = trial.harness.dataset, trial.threat.targets
    if trial.poisons:
        return _right(trial, predicted_if_poisoned(model, dataset, targets, perturbation))
    return _right(trial, predicted_after(model, dataset.graph, perturbation, targets, trial.seed))


def scores(before: Right, after: Right) -> Scores:
    """Scores of a model from the targets that it classifies correctly before and after."""
    return Scores(
        clean=float(before.mean()),
        attacked=float(after.mean()),
        right_before=np.packbits(before).tobytes(),
        right_after=np.packbits(after).tobytes(),
    )


def _budget_finding(trial: Trial, perturbation: Perturbation) -> tuple[Finding, ...]:
    """The finding of the diagnostic `budget-unused`, if any."""
    second = perturbation.injected_edges[1]
    inner = int((second >= trial.harness.dataset.num_nodes).sum())
    link_ends = int(second.numel()) + inner  # such a link counts for both of its ends
    result = budget_unused({**spent(perturbation), "link_ends": link_ends}, trial.threat)
    return () if result is None else (result,)


def spent(perturbation: Perturbation) -> dict[str, int]:
    """Sizes of the parts of a perturbation."""
    return {
        "added_edges": perturbation.added_edges.shape[1],
        "removed_edges": perturbation.removed_edges.shape[1],
        "injected_nodes": perturbation.injected_x.shape[0],
        "injected_edges": perturbation.injected_edges.shape[1],
        "modified_nodes": perturbation.modified_nodes.shape[0],
    }


def describe_threat(threat: Threat) -> str:
    """Text of a threat without its targets, which follow from dataset and difficulty."""
    sizes = repr(
        (
            threat.scenario,
            threat.edge_budget,
            threat.injected_nodes,
            threat.edges_per_injected_node,
            threat.feature_range,
            threat.modified_nodes,
        )
    )
    if threat.edge_budgets is not None:
        sizes += f" {digest([threat.edge_budgets])}"
    if threat.node_budgets is not None:
        sizes += f" nodes {digest([threat.node_budgets])}{' one-hot' * threat.one_hot}"
    if threat.local_budgets is not None:
        sizes += f" local {digest([threat.local_budgets])}"
    if threat.target_budgets is not None:
        sizes += f" of each target {digest([threat.targets, threat.target_budgets])}"
    return sizes


def _right(trial: Trial, predicted: Tensor) -> Right:
    """Which of the targets' classes int64 [t] are right."""
    truth = trial.harness.dataset.graph.y.cpu()[trial.threat.targets.cpu()]
    right: Right = (predicted == truth).numpy()
    return right
