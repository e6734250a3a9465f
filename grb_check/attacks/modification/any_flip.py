"""Any flip: for each target every single pair of nodes is flipped, and what remains is proven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.removable import shortfall
from grb_check.attacks.modification.shared.single_flips import (
    FlipQuestion,
    every_flip,
    likely_flips,
)
from grb_check.attacks.modification.shared.whole_trials import WholeTrials
from grb_check.attacks.protocol import DifferentiableModel, ExactTrials
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat, joined
from grb_check.attacks.verdicts import Verdicts
from grb_check.errors import UsageError


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
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"seconds is {self.seconds}; it must be above 0, or none for no end")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Return a flip for each target that falls; nothing is drawn at random."""
        return self.verdicts(graph, threat, model).perturbation

    def verdicts(self, graph: Data, threat: Threat, model: Any) -> Verdicts:
        """Return what is known of each target.

        Args:
            graph: clean, with true labels of the targets.
            threat: to each target on its own, with a budget of one flip or more.
            model: with `exact_flips` and `in_double`, as a `Victim`; any other is called on each
                graph, and leaves undecided what rounding decides.

        Raises:
            ModelError: which nodes a flip reaches is not known.
        """
        x, targets, labels = graph.x, threat.targets, graph.y[threat.targets]
        with torch.no_grad():
            predicted = model(x, graph.edge_index)[targets].argmax(1)
        budgets = threat.budgets_of_targets().to(targets.device)
        right = ((predicted == labels) & (budgets > 0)).nonzero().squeeze(1)
        if not right.numel():  # nothing to lose
            why = shortfall(0, int(budgets.sum()), "the model has no target right")
            return Verdicts(Perturbation(notes=why), right.cpu(), right.cpu(), 0, "proven")
        known = exact_trials_of(graph, model, targets[right])
        question = FlipQuestion(
            x=x,
            edges=edge_set(graph),
            targets=targets[right],
            labels=labels[right],
            model=model,
            double=model.in_double() if hasattr(model, "in_double") else None,
            answers=lambda nodes: exact_trials_of(graph, model, nodes).trials,
            near=known.near,
            likely=likely_flips(graph, model, targets[right]),
        )
        found = every_flip(question, self.seconds)
        right = right.cpu()
        flips = [Perturbation() for _ in range(targets.numel())]
        for index in (found.pairs[0] >= 0).nonzero().squeeze(1).tolist():
            pair = found.pairs[:, index : index + 1]
            code = question.edges.encode(pair.to(x.device))
            flips[int(right[index])] = question.edges.perturbation(code)
        fallen = right[found.pairs[0] >= 0]
        why = shortfall(
            fallen.numel(), int(budgets.sum()), "no other target is known to fall to one flip"
        )
        undecided = right[found.undecided]
        return Verdicts(joined(flips, why), fallen, undecided, found.tried, known.basis)


def exact_trials_of(graph: Data, model: Any, targets: Tensor) -> ExactTrials:
    """Return the `ExactTrials` of a model; of one that has none, calls on each graph."""
    if hasattr(model, "exact_flips"):
        known: ExactTrials = model.exact_flips(graph.x, graph.edge_index, targets)
        return known
    everywhere = torch.ones(graph.num_nodes, dtype=torch.bool, device=graph.x.device)
    trials = WholeTrials(lambda edges: model(graph.x, edges), edge_set(graph), targets)
    return ExactTrials(trials, everywhere, "proven")
