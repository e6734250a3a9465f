"""Attacks on edges with less than their budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from trial_spies import CASE, DATASET, THREAT, ready, trial

from grb_check.attacks.names import HELD_BACK
from grb_check.attacks.scenarios import Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.errors import GradientError
from grb_check.evaluation import fewer_flips as module
from grb_check.evaluation.fewer_flips import fewer_flips, strongest_part, with_note
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial


@dataclass(frozen=True)
class First:
    """Removes the first edges; with a budget of `refused` it has no gradient."""

    refused: int = 0
    knowledge: Knowledge = "white-box"
    name: ClassVar[str] = "first"
    scenario: ClassVar[Scenario] = "modification"

    def perturb(
        self, graph: Data, threat: Threat, model: object, generator: torch.Generator
    ) -> Perturbation:
        if threat.edge_budget == self.refused:
            raise GradientError("none")
        edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
        return Perturbation(removed_edges=edges[:, : threat.edge_budget])


def flips(budget: int, refused: int = 0) -> Trial:
    threat = Threat(scenario="modification", targets=THREAT.targets, edge_budget=budget)
    case = replace(CASE, scenario="modification", attack="first+budget=0.02")
    return replace(trial(First(refused)), threat=threat, case=case)


@pytest.mark.parametrize(
    ("budget", "refused", "sizes"), [(16, 0, [8, 4, 2]), (16, 4, [8, 2]), (3, 0, [1]), (1, 0, [])]
)
def test_an_attack_is_made_with_parts_of_its_budget(
    budget: int, refused: int, sizes: list[int]
) -> None:
    """Each once, and of one flip or more; those without a gradient are left out."""
    made = fewer_flips(flips(budget, refused), ready())
    assert [part.removed_edges.shape[1] for part in made] == sizes


def test_only_flips_for_all_targets_of_one_graph_have_parts() -> None:
    given = flips(16)
    each = torch.full_like(given.threat.targets, 2)
    apart = replace(given, threat=replace(given.threat, edge_budget=0, target_budgets=each))
    assert fewer_flips(apart, ready()) == []
    assert fewer_flips(replace(given, threat=THREAT), ready()) == []


def test_a_note_says_that_little_of_the_budget_is_used() -> None:
    """As much as the diagnostic `budget-unused` would find."""
    edges = DATASET.graph.edge_index[:, DATASET.graph.edge_index[0] < DATASET.graph.edge_index[1]]
    notes = [
        with_note(flips(20), Perturbation(removed_edges=edges[:, :used])).notes
        for used in (0, 17, 18, 20)
    ]
    assert notes == [(), (f"{HELD_BACK}: 17 of 20 edge changes",), (), ()]


@pytest.mark.parametrize(
    ("most_heard", "used"), [(16, 16), (8, 8), (4, 4), (3, 2), (1, 16)], ids=str
)
def test_where_half_of_the_flips_does_as_much_fewer_are_tried(
    monkeypatch: pytest.MonkeyPatch, most_heard: int, used: int
) -> None:
    """A model that ignores more flips than it hears; a note says that few are used."""

    def right_after(_: Trial, __: TrainedModel, made: Perturbation) -> np.ndarray:
        flipped = made.removed_edges.shape[1]
        right = np.ones(THREAT.targets.numel(), dtype=bool)
        right[: flipped if flipped <= most_heard else 0] = False
        return right

    monkeypatch.setattr(module, "right_after", right_after)
    given = flips(16)
    whole = given.attack.perturb(DATASET.graph, given.threat, None, None)  # type: ignore[arg-type]
    kept = strongest_part(given, ready(), whole)
    assert kept.removed_edges.shape[1] == used
    held_back = (f"{HELD_BACK}: {used} of 16 edge changes",)
    assert kept.notes == (held_back if used < 16 else ())
    injected = replace(given, threat=THREAT)
    assert strongest_part(injected, ready(), whole) is whole
