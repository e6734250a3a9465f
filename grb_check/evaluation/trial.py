"""An attack in one repeat: its threat, its case, and the harness's models on the dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from grb_check.attacks.protocol import Attack
from grb_check.attacks.scenarios import POISONING
from grb_check.attacks.threat import Threat
from grb_check.attacks.verdicts import Tell, untold
from grb_check.cases.case import Case
from grb_check.evaluation.harness_models import HarnessModels


@dataclass(frozen=True)
class Trial:
    """An attack, its threat, the case that it belongs to, and the seed of the repeat.

    Attributes:
        harness: surrogates and references, with the dataset and the store.
        attack: to run.
        threat: what it may do.
        case: for seeds and messages; of a member of `worst` with the member's name.
        seed: of the repeat.
        tell: is told how far an attack is that tries everything.
    """

    harness: HarnessModels
    attack: Attack
    threat: Threat
    case: Case
    seed: int
    tell: Tell = untold

    @property
    def parts(self) -> list[Trial]:
        """The trials of the parts of the threat; this one if it has none."""
        return [replace(self, threat=part) for part in self.threat.parts] or [self]

    @property
    def classes(self) -> Tensor:
        """True classes of the targets, int64 [t], on the CPU."""
        return self.harness.classes(self.threat)

    @property
    def target_weights(self) -> bytes:
        """Those of balanced accuracy, see `balanced_weights`; empty for accuracy."""
        return self.harness.target_weights(self.threat)

    @property
    def poisons(self) -> bool:
        """Whether the perturbation is in the graph before models are trained."""
        return self.case.scenario == POISONING
