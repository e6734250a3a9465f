"""What is known of each target of an attack that tries every change of a kind."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.flip_set_search import FlipQuestion, FoundFlips
from grb_check.attacks.modification.shared.removable import shortfall
from grb_check.attacks.modification.shared.single_flips import likely_flips
from grb_check.attacks.modification.shared.whole_trials import ROUNDING, WholeTrials
from grb_check.attacks.protocol import ExactTrials
from grb_check.attacks.threat import Perturbation, Threat, joined
from grb_check.attacks.verdicts import Tell, Verdicts
from grb_check.errors import count


class ExactSearch(Protocol):
    """Settings of an attack that tries every change of a kind."""

    @property
    def seconds(self) -> float | None:
        """After which all other targets are undecided; None for no end."""
        ...

    @property
    def every(self) -> str:
        """What is tried, after "every": "flip"."""
        ...

    def found(self, question: FlipQuestion, seconds: float | None) -> FoundFlips:
        """Try everything."""
        ...


def verdicts_at_nodes(
    search: ExactSearch, graph: Data, threat: Threat, model: Any, tell: Tell
) -> Verdicts:
    """Return what is known of each target.

    Args:
        search: the attack.
        graph: clean, with true labels of the targets.
        threat: to each target on its own.
        model: with `exact_flips` and `in_double`, as a `Victim`; any other is called on each graph,
            and leaves undecided what rounding decides.
        tell: see `ProvingAttack.verdicts`.

    Raises:
        ModelError: which nodes a flip reaches is not known.
    """
    targets, labels = threat.targets, graph.y[threat.targets]
    with torch.no_grad():
        predicted = model(graph.x, graph.edge_index)[targets].argmax(1)
    budgets = threat.budgets_of_targets().to(targets.device)
    right = ((predicted == labels) & (budgets > 0)).nonzero().squeeze(1)
    if not right.numel():  # nothing to lose
        why = shortfall(0, int(budgets.sum()), "the model has no target right")
        empty = right.cpu()
        return Verdicts(Perturbation(notes=why), empty, empty, empty, 0, "proven", search.every)
    question = FlipQuestion(
        x=graph.x,
        edges=edge_set(graph),
        targets=targets[right],
        labels=labels[right],
        budgets=budgets[right],
        model=model,
        double=model.in_double() if hasattr(model, "in_double") else None,
        answers=lambda nodes: exact_trials_of(graph, model, nodes),
        likely=likely_flips(graph, model, targets[right]),
        tell=tell,
    )
    found = search.found(question, search.seconds)
    right = right.cpu()
    parts = [Perturbation() for _ in range(targets.numel())]
    for index, pairs in zip(right.tolist(), found.sets, strict=True):
        if pairs is not None:
            code = question.edges.encode(pairs.to(graph.x.device))
            parts[index] = question.edges.perturbation(code)
    used = found.sizes
    reason = f"no other target is known to fall to any {search.every}"
    why = shortfall(int(used.sum()), int(budgets.sum()), reason)
    return Verdicts(
        perturbation=joined(parts, why),
        fallen=right[used > 0],
        sizes=used[used > 0],
        undecided=right[found.undecided],
        tried=found.tried,
        basis=question.answers(question.targets[:1]).basis,
        every=search.every,
        notes=many_sets(int(found.too_many.sum()), "target"),
    )


def many_sets(number: int, thing: str) -> tuple[str, ...]:
    """Return a note on so many things of which not every set of changes was tried."""
    if not number:
        return ()
    return (f"{count(number, thing)} with more sets of edges than are tried, undecided",)


def exact_trials_of(graph: Data, model: Any, targets: Tensor) -> ExactTrials:
    """Return the `ExactTrials` of a model; of one that has none, calls on each graph."""
    if hasattr(model, "exact_flips"):
        known: ExactTrials = model.exact_flips(graph.x, graph.edge_index, targets)
        return known
    everywhere = torch.ones(graph.num_nodes, dtype=torch.bool, device=graph.x.device)
    trials = WholeTrials(lambda edges: model(graph.x, edges), edge_set(graph), targets)
    return ExactTrials(trials, everywhere, "proven", ROUNDING)
