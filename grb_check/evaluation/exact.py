"""Attacks that try everything: what is proven of a model, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

import numpy as np
import torch

from grb_check.attacks.graph_sets.attacks import verdicts as verdicts_of
from grb_check.attacks.protocol import Attack
from grb_check.attacks.referee import verify
from grb_check.attacks.verdicts import ProvingAttack, Tell, Verdicts, untold
from grb_check.cases.outcomes import NO_GRAPH, Exact, Scores
from grb_check.cases.repeat_results import RepeatResult
from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset
from grb_check.errors import ModelError, UnknownReachError, count
from grb_check.evaluation.perturbations import white_box_view
from grb_check.evaluation.references import save_scores, stored_scores
from grb_check.evaluation.results import measured
from grb_check.evaluation.scores import Right, right_after, right_before, scores
from grb_check.evaluation.store_keys import description_of, white_box_reference_key
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.training.building import untrained_victim
from grb_check.user_code.randomness import isolated_randomness

TRIED: Final = 8  # targets at which an untrained model is tried


def proves(attack: Attack) -> bool:
    """Return whether an attack is a `ProvingAttack`."""
    return hasattr(attack, "verdicts")


def check_reach(built: object, dataset: AnyDataset, *, name: str, device: torch.device) -> None:
    """Check, before a training, that it is known which nodes a changed edge of the model reaches.

    What cannot be told of an untrained model is told when the trained one is attacked.

    Args:
        built: what the factory returned.
        dataset: on the device.
        name: of the model, for messages.
        device: of the model.

    Raises:
        UnknownReachError: it is not.
    """
    if isinstance(dataset, GraphDataset):
        return
    graph = dataset.graph
    try:
        victim = untrained_victim(built, dataset, name=name, device=device)
        if victim is not None:
            victim.exact_flips(graph.x, graph.edge_index, dataset.test["full"][:TRIED].to(device))
    except UnknownReachError:
        raise
    except ModelError:
        return


def exact(trial: Trial, victim: TrainedModel, kinds: Sequence[str]) -> RepeatResult:
    """Prove what can be proven of the victim, and of references.

    Args:
        trial: of a `ProvingAttack`, in its repeat.
        victim: the model under test.
        kinds: of the references.

    Raises:
        BudgetError: the attack did more than its threat allows.
        ModelError: the model's answers to flips are not known.
    """
    first = _part_of(trial.tell, 0, 1 + len(set(kinds) - {NO_GRAPH}))
    verdicts, proven, _, summary = _judged(replace(trial, tell=first), victim)
    return measured(
        trial,
        victim,
        verdicts.perturbation,
        False,
        scores(trial, right_before(trial, victim), proven),
        exact_references(trial, kinds, searches=1),
        method="adaptive",
        methods=("adaptive",),
        notes=(_told(trial, victim.victim.name, verdicts.every, summary), *verdicts.notes),
        exact=summary,
    )


def exact_references(trial: Trial, kinds: Sequence[str], searches: int = 0) -> dict[str, Scores]:
    """Return the scores of references by kind: what they keep at most; stored.

    Targets that are undecided count as lost for the model under test, and as kept for references.

    Args:
        trial: the attack in its repeat.
        kinds: of the references.
        searches: that were made before, for the progress.
    """
    with_graph = [kind for kind in kinds if kind != NO_GRAPH]  # without it nothing is tried
    parts = searches + len(with_graph)
    tells = {kind: _part_of(trial.tell, searches + n, parts) for n, kind in enumerate(with_graph)}
    return {
        kind: _reference_scores(replace(trial, tell=tells.get(kind, untold)), kind)
        for kind in kinds
    }


def _part_of(tell: Tell, number: int, parts: int) -> Tell:
    """Return how one of several parts of the work tells its share, all of which take as long."""
    return lambda share: tell((number + share) / parts)


def _reference_scores(trial: Trial, kind: str) -> Scores:
    key = white_box_reference_key(
        trial, kind, description_of(trial) or "", "every change, undecided targets kept"
    )
    with trial.harness.store.lock(key):
        stored = stored_scores(trial, key)
        if stored is not None:
            return stored
        reference = trial.harness.reference(kind, trial.seed)
        _, proven, undecided, _ = _judged(trial, reference)
        # As lost targets they would let the model look better beside it than is known.
        return save_scores(trial, key, right_before(trial, reference), proven | undecided)


def _told(trial: Trial, name: str, every: str, found: Exact) -> str:
    computed = count(found.tried, "change") + " computed"
    if found.basis != "proven":
        computed += "; checked, not proven: what a change reaches was compared on some flips alone"
    sizes = ""
    if len(found.smallest) > 1:
        each = (f"{number} at {size}" for size, number in enumerate(found.smallest, 1))
        sizes = f" ({', '.join(each)})"
    return (
        f"{name}: of {count(found.right, 'target')} that are right, {found.proven} keep their "
        f"class under every {every}, {found.fallen} do not{sizes}, {found.undecided} undecided"
        f"{_radius(trial, found)} ({computed})"
    )


def _radius(trial: Trial, found: Exact) -> str:
    most = getattr(trial.attack, "edges", 1)
    if most == 1 or not found.right:
        return ""
    least, largest = found.median_radius(most)
    between = str(largest) if least == largest else f"{least} to {largest}"
    return f"; median radius {between}{' or more' * (largest == most)}"


def _judged(trial: Trial, model: TrainedModel) -> tuple[Verdicts, Right, Right, Exact]:
    """Return what is known of a model, and which targets are proven and undecided, bool [t].

    A target that stays right under the change that was found for it is undecided.
    """
    attack = cast(ProvingAttack, trial.attack)
    graph = white_box_view(trial, model)
    with isolated_randomness(trial.seed):
        verdicts = verdicts_of(attack, graph, trial.threat, model.victim, trial.tell)
    verify(verdicts.perturbation, trial.harness.dataset.graph, trial.threat)
    before = right_before(trial, model)
    after = right_after(trial, model, verdicts.perturbation)
    sizes = np.zeros(after.size, dtype=np.int64)
    sizes[verdicts.fallen.numpy()] = verdicts.sizes.numpy()
    undecided = after & (sizes > 0)
    undecided[verdicts.undecided.numpy()] = True
    undecided &= before
    proven = after & ~undecided
    summary = Exact(
        tried=verdicts.tried,
        right=int(before.sum()),
        proven=int(proven.sum()),
        undecided=int(undecided.sum()),
        basis=verdicts.basis,
        smallest=tuple(np.bincount(sizes[~after])[1:].tolist()),
    )
    return verdicts, proven, undecided, summary
