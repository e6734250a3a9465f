"""Attacks that try everything: what counts as proven, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from trial_spies import CPU, DATASET, ready

from grb_check.attacks.budgets import threat_of
from grb_check.attacks.modification.any_flip import ModificationAnyFlip
from grb_check.attacks.registry import canonical_name
from grb_check.attacks.threat import Perturbation, Threat, joined
from grb_check.attacks.verdicts import Tell, Verdicts
from grb_check.cases.case import Case
from grb_check.errors import BudgetError, UsageError
from grb_check.evaluation.exact import exact, exact_references, proves
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.scores import right_before
from grb_check.evaluation.trial import Trial
from grb_check.store.store import Store

CASE = Case("communities", "full", "modification", "any-flip")
THREAT = threat_of(DATASET, "full", "modification", "any-flip")


def trial(attack: object, folder: Path | None = None) -> Trial:
    models = HarnessModels(DATASET, DATASET.fingerprint(), Store(folder), CPU)
    return Trial(models, attack, THREAT, CASE, 0)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Saying:
    """Says of the first targets what it is told to."""

    flipped: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()
    flips: int = 1
    name: ClassVar[str] = "any-flip"
    scenario: ClassVar[str] = "modification"
    knowledge: ClassVar[str] = "white-box"

    def verdicts(self, graph: Data, threat: Threat, model: object, tell: Tell) -> Verdicts:
        parts = [Perturbation() for _ in range(threat.targets.numel())]
        for index in self.flipped:
            others = torch.tensor([[0] * self.flips, list(range(1, 1 + self.flips))])
            parts[index] = Perturbation(added_edges=others)
        fallen, undecided = (
            torch.tensor(some, dtype=torch.int64) for some in (self.flipped, self.undecided)
        )
        sizes = torch.full_like(fallen, self.flips)
        return Verdicts(joined(parts), fallen, sizes, undecided, 7, "proven", "flip")


def test_each_target_has_a_budget_of_one_flip() -> None:
    assert THREAT.target_budgets is not None
    assert set(THREAT.target_budgets.tolist()) == {1}
    for budget in ("local", "budget"):
        with pytest.raises(UsageError, match=f"takes no {budget}=SHARE: .* of 1 changed edge;"):
            canonical_name("modification", f"any-flip+{budget}=0.5")


def test_a_flip_that_changes_nothing_leaves_its_target_undecided() -> None:
    """The model uses features alone, so that no flip changes a class; nor is another undecided
    target in the proven share."""
    model = ready()
    before = right_before(trial(Saying()), model)
    first, second, third = np.flatnonzero(before)[:3].tolist()
    result = exact(trial(Saying((first, second), (third,))), model, ())
    found = result.measurement.exact
    assert found is not None
    assert (found.right, found.proven, found.undecided) == (before.sum(), before.sum() - 3, 3)
    assert (found.fallen, found.tried) == (0, 7)
    assert result.measurement.victim.attacked == pytest.approx((before.sum() - 3) / before.size)
    assert "3 undecided" in result.measurement.notes[-1]
    assert not result.measurement.diagnostics


def test_undecided_targets_of_references_count_as_kept(tmp_path: Path) -> None:
    """As lost ones they would let a model look better than is known."""
    asked = trial(Saying(undecided=(0, 1, 2)), tmp_path)
    reference = exact_references(asked, ["mlp"])["mlp"]
    right = right_before(asked, asked.harness.reference("mlp", 0))
    assert right[:3].any()
    assert reference.attacked == reference.clean == pytest.approx(right.mean())


def test_two_flips_for_one_target_are_more_than_allowed() -> None:
    with pytest.raises(BudgetError, match="its budget"):
        exact(trial(Saying((0,), flips=2)), ready(), ())


def test_a_model_that_reads_features_alone_keeps_what_it_has() -> None:
    result = exact(trial(ModificationAnyFlip()), ready(), ())
    assert result.measurement.victim.attacked == result.measurement.victim.clean


def test_references_are_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = ModificationAnyFlip.verdicts

    def counted(self: ModificationAnyFlip, *given: object) -> Verdicts:
        calls.append(self)
        return original(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(ModificationAnyFlip, "verdicts", counted)
    assert proves(ModificationAnyFlip())
    scores = [exact_references(trial(ModificationAnyFlip(), tmp_path), ["mlp"]) for _ in range(2)]
    assert scores[0] == scores[1]
    assert scores[0]["mlp"].attacked == scores[0]["mlp"].clean
    assert len(calls) == 1
