"""Any flip: for each target every single pair of nodes is flipped, and what remains is proven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.flip_set_search import FlipQuestion, FoundFlips
from grb_check.attacks.modification.shared.proofs import verdicts_at_nodes
from grb_check.attacks.modification.shared.single_flips import every_flip
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import check_seconds
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.attacks.verdicts import Tell, Verdicts, untold


@dataclass(frozen=True, kw_only=True)
class ModificationAnyFlip:
    """Ask for each target whether some single flip of a pair of nodes changes its class.

    A pair may be anywhere; an edge is removed, any other pair becomes one. All pairs that reach a
    target are tried, so that a target without such a flip keeps its class under each of them: no
    attack with a budget of one flip changes it (`single_flips`; our own).

    Args:
        seconds: after which targets that have not fallen are left undecided; None for no end.
    """

    seconds: float | None = None

    name: ClassVar[str] = "any-flip"
    scenario: ClassVar[Scenario] = MODIFICATION
    knowledge: ClassVar[Knowledge] = "white-box"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_seconds(self.seconds)

    @property
    def every(self) -> str:
        """See `ExactSearch`."""
        return "flip"

    def found(self, question: FlipQuestion, seconds: float | None) -> FoundFlips:
        """See `ExactSearch`."""
        return every_flip(question, seconds)

    def verdicts(self, graph: Data, threat: Threat, model: Any, tell: Tell = untold) -> Verdicts:
        """Return what is known of each target, see `verdicts_at_nodes`."""
        return verdicts_at_nodes(self, graph, threat, model, tell)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Return a flip for each target that falls; nothing is drawn at random."""
        return self.verdicts(graph, threat, model).perturbation
