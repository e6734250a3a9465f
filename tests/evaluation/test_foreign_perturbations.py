"""Perturbations of other models, tried where the attack knows the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from trial_spies import CASE, DATASET, TARGETS, Spy, trial

from grb_check.attacks.threat import Perturbation
from grb_check.cases.case import Case
from grb_check.cases.outcomes import RunPerturbation
from grb_check.evaluation.evaluator import stronger_transfers
from grb_check.evaluation.own_models import TrainedModel, predict
from grb_check.evaluation.perturbation_bytes import to_bytes
from grb_check.evaluation.trials import right_after
from grb_check.gradients.victim import Victim
from grb_check.victims.conventions import PLAIN, Adapter

OTHER = replace(CASE, model="other")


class Brittle(torch.nn.Module):
    """Wrong about everything as soon as a node has been added."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        added = x.shape[0] - DATASET.num_nodes
        classes = (DATASET.graph.y + bool(added)) % 3
        return torch.cat([functional.one_hot(classes, 3).float(), torch.zeros(added, 3)])


def brittle() -> TrainedModel:
    victim = Victim(Adapter(Brittle(), "brittle", PLAIN), 3)
    return TrainedModel(victim, predict(victim, DATASET.graph, 0))


def injected(count: int = 2) -> bytes:
    """A perturbation of that many nodes."""
    generator = torch.Generator().manual_seed(0)
    perturbation = Spy(count=count).perturb(DATASET.graph, trial(Spy()).threat, None, generator)
    return to_bytes(perturbation)


def all_right() -> bytes:
    """Every target stays right."""
    return np.packbits(np.ones(TARGETS.numel(), dtype=bool)).tobytes()


def made(case: Case = OTHER, content: bytes = b"", *, knows_model: bool = True) -> RunPerturbation:
    return RunPerturbation(case=case, knows_model=knows_model, perturbation=content or injected())


def found(*perturbations: RunPerturbation, own: bytes = b"") -> dict[Case, float]:
    victim = brittle()
    findings = stronger_transfers(
        victim, {CASE: trial(Spy())}, {CASE: own or all_right()}, perturbations
    )
    return {case: finding.figure for case, finding in findings.items()}


def test_a_perturbation_of_another_model_that_takes_more_is_a_finding() -> None:
    """With the share of targets that it takes beyond the attack on the model itself."""
    assert found(made()) == {CASE: 1.0}
    (finding,) = stronger_transfers(
        brittle(), {CASE: trial(Spy())}, {CASE: all_right()}, [made()]
    ).values()
    assert finding.name == "transfer-stronger"
    assert "the perturbation of other@communities/easy/injection/spy leaves" in finding.text
    nothing = np.packbits(np.zeros(TARGETS.numel(), dtype=bool)).tobytes()
    assert found(made(), own=nothing) == {}


def test_only_what_fits_the_threat_and_was_not_made_on_the_model_is_tried() -> None:
    """One of the model itself is another attack, which has a case of its own."""
    assert found(made(CASE)) == {}
    assert found(made(CASE, knows_model=False)) == {CASE: 1.0}
    assert found(made(content=injected(3))) == {}  # the threat allows two nodes
    assert found(made(replace(OTHER, difficulty="hard"))) == {}
    assert found(made(replace(OTHER, scenario="modification"))) == {}
    assert found(made(replace(OTHER, dataset="others"))) == {}


def test_the_strongest_is_told() -> None:
    """A perturbation that changes nothing is weaker."""
    nothing = to_bytes(Perturbation())
    victim, trials = brittle(), {CASE: trial(Spy())}
    assert right_after(trials[CASE], victim, Perturbation()).all()
    both = [made(content=nothing), made(replace(OTHER, attack="strong"))]
    (finding,) = stronger_transfers(victim, trials, {CASE: all_right()}, both).values()
    assert "injection/strong" in finding.text


def test_beside_a_stronger_attack_of_the_run_a_weaker_one_is_no_news() -> None:
    """Every attack on the model under that threat has to be weaker, and then all are doubted."""
    strong = replace(CASE, attack="strong")
    trials = {CASE: trial(Spy()), strong: trial(Spy())}
    nothing = np.packbits(np.zeros(TARGETS.numel(), dtype=bool)).tobytes()
    both = {CASE: all_right(), strong: nothing}
    assert stronger_transfers(brittle(), trials, both, [made()]) == {}
    weak = {CASE: all_right(), strong: all_right()}
    assert set(stronger_transfers(brittle(), trials, weak, [made()])) == {CASE, strong}


def test_a_perturbation_is_tried_on_the_targets_of_each_case() -> None:
    """Attacks on single nodes have fewer; an empty perturbation fits them and all others."""
    few = replace(CASE, attack="few")
    full = trial(Spy())
    threat = replace(full.threat, targets=full.threat.targets[:4])
    trials = {few: replace(full, threat=threat), CASE: full}
    correct = {few: np.packbits(np.ones(4, dtype=bool)).tobytes(), CASE: all_right()}
    nothing = [made(content=to_bytes(Perturbation()))]
    assert stronger_transfers(brittle(), trials, correct, nothing) == {}
