"""Keys of stored, packed and shipped results of a trial: all that each result depends on."""

from __future__ import annotations

import hashlib
from typing import Final

from grb_check.attacks.injection.blended_search import VERSION as BLENDS
from grb_check.attacks.injection.blended_search import can_search
from grb_check.attacks.names import base_name
from grb_check.attacks.registry import describe
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.datasets.dataset import digest
from grb_check.evaluation.harness_models import surrogate_seed
from grb_check.evaluation.surrogates import kinds_for, references_on
from grb_check.evaluation.trial import Trial
from grb_check.store.pack import Pack, PerturbationRequest, shipped_pack

# Raised whenever the same models, attack, data and seed give other figures: because of what attacks
# differentiate through (edge weights, factors of pairs), the search by queries, the
# threat, seeds, or the measuring. It is part of names on disk.
PROTOCOL: Final = 2
ATTACK_SEEDS: Final = 5  # of black-box perturbations; later repeats have the same again


def perturbation_key(trial: Trial) -> str | None:
    """Return the key of a black-box perturbation that is made here.

    None for an attack without a version, see `registry.describe`: nothing of it is stored.

    Args:
        trial: with the seed of the perturbation.
    """
    harness, description = trial.harness, describe(trial.attack)
    if description is None:
        return None
    return harness.store.key(
        kind="perturbation",
        protocol=PROTOCOL,
        dataset=harness.fingerprint,
        surrogate=surrogate_recipes(trial),
        surrogate_seed=surrogate_seed(),
        attack=description,
        threat=describe_threat(trial.threat),
        difficulty=trial.case.difficulty,
        seed=trial.seed,
    )


def black_box_reference_key(trial: Trial, perturbation: Perturbation, kind: str) -> str:
    """Return the key of the scores of a reference under a black-box perturbation."""
    harness = trial.harness
    return harness.store.key(
        kind="poisoned reference" if trial.poisons else "reference",
        protocol=PROTOCOL,
        dataset=harness.fingerprint,
        recipe=harness.recipe(kind),
        perturbation=digest([*perturbation.tensors(), trial.threat.targets]),
        seed=trial.seed,
    )


def white_box_reference_key(trial: Trial, kind: str, description: str, methods: str) -> str:
    """Return the key of the scores of a reference that was attacked as the victim was.

    Args:
        trial: of the victim.
        kind: of the reference.
        description: of the attack, see `description_of`.
        methods: tried on the victim, with the version of the search by answers.
    """
    harness, pack = trial.harness, pack_of(trial)
    return harness.store.key(
        kind="white-box reference, or transferred",
        protocol=PROTOCOL,
        methods=methods,
        dataset=harness.fingerprint,
        recipe=harness.recipe(kind),
        surrogate=surrogate_recipes(trial) if pack is None else f"pack {pack.digest}",
        surrogate_seed=surrogate_seed(),
        attack=description,
        threat=describe_threat(trial.threat),
        difficulty=trial.case.difficulty,
        seed=trial.seed,
    )


def shipped_key(trial: Trial) -> str:
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


def pack_of(trial: Trial) -> Pack | None:
    """Return the pack that has the black-box perturbation of a trial; None if it is made here."""
    if trial.harness.pack is not None:
        return trial.harness.pack
    pack = shipped_pack()
    return pack if request_of(trial) in pack.perturbations else None


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


def surrogate_recipes(trial: Trial) -> str:
    """Return what determines the surrogates of a trial, as a part of store keys."""
    return "; ".join(trial.harness.recipe(kind) for kind in kinds_for(trial.attack))


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
    if threat.columns is not None:
        columns = threat.columns
        sizes += f" columns {digest([columns.low, columns.high, columns.step])}"
    if threat.edge_budgets is not None:
        sizes += f" {digest([threat.edge_budgets])}"
    if threat.node_budgets is not None:
        sizes += f" nodes {digest([threat.node_budgets])}{' one-hot' * threat.one_hot}"
    if threat.local_budgets is not None:
        sizes += f" local {digest([threat.local_budgets])}"
    if threat.target_budgets is not None:
        sizes += f" of each target {digest([threat.targets, threat.target_budgets])}"
    if threat.edge_types:
        sizes += f" {threat.edge_types} types of new edges"
    if threat.ends is not None:
        sizes += f" at the ends {digest([threat.ends])}"
    if threat.parts:
        texts = [describe_threat(part) for part in threat.parts]
        parts = hashlib.sha256(repr(texts).encode()).hexdigest()
        sizes += f" in {len(texts)} parts {parts[:16]}"
    return sizes
