"""Any removals: every set of up to so many edges is removed, and what remains is proven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.flip_set_search import FlipQuestion, FoundFlips
from grb_check.attacks.modification.shared.proofs import verdicts_at_nodes
from grb_check.attacks.modification.shared.removal_sets import every_removal
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import check_seconds
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.attacks.verdicts import Tell, Verdicts, untold
from grb_check.errors import UsageError

MOST_EDGES: Final = 3  # in a set: the budget of a target


@dataclass(frozen=True, kw_only=True)
class ModificationAnyRemovals:
    """Ask for each target how many edges have to be removed until its class changes.

    Every set of up to `edges` of them is tried that can reach the target, smaller ones first, so
    that a target without such a set keeps its class whatever that many edges are removed. Unless a
    time is set, a target with more than `removal_sets.MOST_SETS` sets of a size is left undecided
    (our own).

    Args:
        edges: in a set, 1 to 3.
        seconds: after which targets are left undecided that have not fallen and were not asked for
            all of their sets; None for no end.
    """

    edges: int = 2
    seconds: float | None = None

    name: ClassVar[str] = "any-removals"
    scenario: ClassVar[Scenario] = MODIFICATION
    knowledge: ClassVar[Knowledge] = "white-box"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 1 <= self.edges <= MOST_EDGES:
            raise UsageError(f"edges is {self.edges}; it must be 1 to {MOST_EDGES}")
        check_seconds(self.seconds)

    @property
    def every(self) -> str:
        """See `ExactSearch`."""
        return "removal" if self.edges == 1 else f"removal of up to {self.edges} edges"

    def found(self, question: FlipQuestion, seconds: float | None) -> FoundFlips:
        """See `ExactSearch`."""
        return every_removal(question, self.edges, seconds)

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
        """Return removals for each target that falls; nothing is drawn at random."""
        return self.verdicts(graph, threat, model).perturbation
