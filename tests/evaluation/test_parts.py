"""Threats in parts: each part is measured on its own, and all together as one case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from trial_spies import CPU, DATASET, Linear, ready, train_once

from grb_check.attacks.budgets import threat_of
from grb_check.attacks.names import HELD_BACK
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Perturbation, Threat, changes_used
from grb_check.cases.case import Case
from grb_check.cases.findings import Finding
from grb_check.errors import UsageError
from grb_check.evaluation.black_box import black_box
from grb_check.evaluation.fewer_flips import with_note
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.parts import references_of_parts, result_of_parts
from grb_check.evaluation.perturbations import attack_surrogates
from grb_check.evaluation.repeats import reference_scores
from grb_check.evaluation.results import facts_of
from grb_check.evaluation.scores import scores_after
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.white_box import white_box
from grb_check.gradients.victim import Victim
from grb_check.store.perturbation_bytes import from_bytes
from grb_check.store.store import Store
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN

pytestmark = pytest.mark.usefixtures("short_trainings")
WHERE = ("full", "modification")
QUICK = "prbcd+iterations=3+samples=2+gang=4x2"


def trial_of_gangs(name: str, folder: Path | None = None) -> Trial:
    models = HarnessModels(DATASET, DATASET.fingerprint(), Store(folder), CPU)
    attack = load_attack("modification", name)
    case = Case("communities", "full", "modification", name)
    return Trial(models, attack, threat_of(DATASET, "full", "modification", name), case, 0)


def gcn() -> TrainedModel:
    victim = train_once(DATASET, "gcn", 7)
    return TrainedModel(victim, predict(victim, DATASET.graph, 0))


@pytest.mark.parametrize(
    "name", ["dice+gang=3x1", "rnd+gang=5x2", pytest.param(QUICK, marks=pytest.mark.slow)]
)
def test_a_case_of_gangs_has_the_figures_of_its_perturbation(name: str) -> None:
    """Which targets stay right is what one gets from the whole perturbation, gang by gang."""
    trial, model = trial_of_gangs(name), gcn()
    attack = white_box if "prbcd" in name else black_box
    parts = [attack(part, model, ()) for part in trial.parts]
    result = result_of_parts(trial, model, parts)
    perturbation = from_bytes(result.perturbation)
    verify(perturbation, DATASET.graph, trial.threat)
    measurement = result.measurement
    assert measurement.victim == scores_after(trial, model, perturbation)
    assert measurement.spent["added_edges"] == perturbation.added_edges.shape[1] > 0
    assert result.facts.targets == trial.threat.targets.numel() < DATASET.test["full"].numel()
    members = [part.targets.numel() for part in trial.threat.parts]
    attacked = [part.measurement.victim.attacked for part in parts]
    assert measurement.victim.attacked == pytest.approx(np.average(attacked, weights=members))
    every = DATASET.test["full"].numel()
    assert measurement.notes[0] == f"{len(parts)} gangs, {sum(members)} of {every} targets"


def test_each_gang_is_judged_on_a_graph_with_its_changes_alone() -> None:
    trial, model = trial_of_gangs("dice+gang=3x2"), gcn()
    parts = [black_box(part, model, ()) for part in trial.parts]
    first = from_bytes(parts[0].perturbation)
    alone = replace(first, flip_targets=torch.zeros(_flips(first), dtype=torch.int64))
    result = scores_after(trial, model, alone)
    after = np.unpackbits(np.frombuffer(result.right_after, np.uint8))
    before = np.unpackbits(np.frombuffer(result.right_before, np.uint8))
    assert (after[3:] == before[3:]).all()
    expected = np.unpackbits(np.frombuffer(parts[0].measurement.victim.right_after, np.uint8))
    assert (after[:3] == expected[:3]).all()


def _flips(perturbation: Perturbation) -> int:
    return perturbation.added_edges.shape[1] + perturbation.removed_edges.shape[1]


def test_references_are_attacked_gang_by_gang(tmp_path: Path) -> None:
    trial = trial_of_gangs(QUICK, tmp_path)
    together = reference_scores(trial, ("adaptive",), ("gcn", "mlp"))
    apart = [reference_scores(part, ("adaptive",), ("gcn", "mlp")) for part in trial.parts]
    assert together == references_of_parts(trial, apart)
    assert together["mlp"].clean == together["mlp"].attacked


def test_findings_of_few_gangs_stand_only_if_they_concern_the_model() -> None:
    trial, model = trial_of_gangs("dice+gang=3x1"), ready()
    parts = [black_box(part, model, ()) for part in trial.parts]

    def found(*names: str) -> tuple[Finding, ...]:
        return tuple(Finding(name=name, figure=0.5, limit=0.1, text=name) for name in names)

    given = [found("random-stronger", "wrong-gradient"), *[found("transfer-stronger")] * 3, ()]
    parts = [
        replace(part, measurement=replace(part.measurement, diagnostics=findings))
        for part, findings in zip(parts, given, strict=True)
    ]
    result = result_of_parts(trial, model, parts).measurement.diagnostics
    texts = [finding.text for finding in result if finding.name != "budget-unused"]
    assert texts == ["wrong-gradient (1 of 5 gangs)", "transfer-stronger (3 of 5 gangs)"]


def test_unused_budgets_are_one_note() -> None:
    trial, model = trial_of_gangs("dice+gang=3x1"), ready()
    parts = [black_box(part, model, ()) for part in trial.parts]
    notes = [
        ("1 of 3 edge changes used: {why}",),
        ("2 of 3 edge changes used: {why}",),
        (f"{HELD_BACK}: 2 of 3 nodes, 2 of 9 links",),
        ("other",),
    ]
    parts = [
        replace(part, measurement=replace(part.measurement, notes=some))
        for part, some in zip(parts, [*notes, ("other",)], strict=True)
    ]
    assert result_of_parts(trial, model, parts).measurement.notes[1:] == (
        "3 of 6 edge changes used: {why} (2 of 5 gangs)",
        f"{HELD_BACK} (1 of 5 gangs)",
        "other (2 of 5 gangs)",
    )


def test_a_model_that_is_called_on_the_whole_graph_is_judged_alike() -> None:
    """Its type does not tell how far it reaches."""

    class Wrapped(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.inner(x, edge_index)

    trial, model = trial_of_gangs("dice+gang=4x3"), gcn()
    adapter = Adapter(Wrapped(model.victim.module).eval(), "wrapped", PLAIN)
    victim = Victim(adapter, DATASET.num_classes)
    wrapped = TrainedModel(victim, predict(victim, DATASET.graph, 0))
    for part in trial.parts:
        first, second = (black_box(part, each, ()).measurement for each in (model, wrapped))
        assert first.victim == second.victim


def test_a_gang_needs_as_many_targets() -> None:
    with pytest.raises(UsageError, match=r"gang=999x3, but dataset communities at full has \d+"):
        threat_of(DATASET, "full", "modification", "dice+gang=999")


def test_a_model_without_the_graph_loses_nothing() -> None:
    trial, model = trial_of_gangs("dice+gang=3x2"), ready()
    torch.manual_seed(0)
    assert isinstance(model.victim.module, Linear)
    parts = [black_box(part, model, ()) for part in trial.parts]
    measured = result_of_parts(trial, model, parts).measurement.victim
    assert measured.clean == measured.attacked


def test_a_gang_of_one_class_has_the_majority_of_all_test_nodes() -> None:
    """Else a reference that is always right would count as one that has learned nothing."""
    plain = facts_of(replace(trial_of_gangs("dice"), threat=threat_of(DATASET, *WHERE, "dice")))
    assert facts_of(trial_of_gangs("dice+gang=3x1")).majority == plain.majority < 0.6


def test_budgets_of_gangs_count_at_members() -> None:
    """An edge between two members is one change of each, so that nothing of the budget is left."""
    part = trial_of_gangs("dice+gang=4x1").parts[0]
    first, second, third, fourth = part.threat.targets.tolist()
    inner = Perturbation(added_edges=torch.tensor([[first, third], [second, fourth]]))
    assert changes_used(part.threat, inner) == part.threat.edge_budget == 4
    assert with_note(part, inner) is inner


def test_a_note_on_less_budget_is_one_for_all_gangs() -> None:
    trial, model = trial_of_gangs("dice+gang=3x1"), ready()
    parts = [black_box(part, model, ()) for part in trial.parts]
    held = [(f"{HELD_BACK}: 1 of 3 edge changes",), (f"{HELD_BACK}: 2 of 3 edge changes",)]
    parts = [
        replace(part, measurement=replace(part.measurement, notes=notes))
        for part, notes in zip(parts, [*held, (), (), ()], strict=True)
    ]
    notes = result_of_parts(trial, model, parts).measurement.notes
    assert notes[1:] == (f"{HELD_BACK}: 3 of 6 edge changes (2 of 5 gangs)",)


def test_owners_of_a_gang_know_its_labels() -> None:
    """With any metric; a surrogate may be wrong about them."""
    seen: list[torch.Tensor] = []

    class Looks:
        name, scenario, knowledge = "looks", "modification", "black-box"

        def perturb(self, graph: Data, threat: Threat, *_: object) -> Perturbation:
            seen.append(graph.y[threat.targets])
            return Perturbation()

    trial = replace(trial_of_gangs("dice+gang=3x1"), attack=Looks())  # type: ignore[arg-type]
    for part in trial.parts:
        attack_surrogates(part)
    truth = [DATASET.graph.y[part.targets] for part in trial.threat.parts]
    assert all(map(torch.equal, seen, truth))
