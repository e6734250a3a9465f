"""How many of the targets that truly fall to one flip the attacks find, and what is proven."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from benchmarks.modification.arena import EPOCHS, check_names, public_planetoid
from benchmarks.modification.victims import VICTIMS, trained
from benchmarks.rows import Row, markdown
from grb_check.attacks.budgets import threat_of
from grb_check.attacks.modification.any_flip import ModificationAnyFlip
from grb_check.attacks.modification.any_removals import ModificationAnyRemovals
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import is_targeted, load_attack
from grb_check.attacks.threat import Perturbation, Threat, apply
from grb_check.attacks.verdicts import ProvingAttack
from grb_check.datasets import Places, find
from grb_check.datasets.dataset import Dataset
from grb_check.datasets.formats.bundled import GRAPH
from grb_check.datasets.loading import load_graph
from grb_check.evaluation.devices import threads_for
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import derive_seed

ATTACKS: Final = ("nettack", "sga", "l1d-rnd", "fga", "prbcd", "grbcd", "eva")
# Of the victim `found` is the share of its right targets that fall.
COLUMNS: Final = (
    *("data", "victim", "attack", "targets", "right", "proven", "fallen", "undecided"),
    *("found", "broken", "flips", "seconds"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="has planetoid/NAME/raw/ind.*")
    parser.add_argument("--datasets", nargs="+", default=["Cora"], help=f"of Planetoid; {GRAPH}")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=["GCN", "GAT"])
    parser.add_argument("--removals", nargs="*", type=int, default=[], help="edges, 1 to 3")
    parser.add_argument("--seconds", type=float, help="for flips, and for removals of each size")
    parser.add_argument("--attacks", nargs="*", default=ATTACKS, help="names, with modifiers")
    parser.add_argument("--targets", type=int, default=1000, help="the first of the test nodes")
    parser.add_argument("--sample", type=int, default=40, help="of fallen and of proven targets")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="most epochs of the training")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each victim, and for each attack on it with a budget of one flip."""
    check_names(options.attacks)
    for name in options.datasets:
        if name == GRAPH:
            dataset = load_graph(find(name, Places()))
        else:
            dataset = public_planetoid(options.data / "planetoid", name)
        yield from of_dataset(dataset, options)


def of_dataset(dataset: Dataset, options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each victim, and for each attack on it.

    Attacks on all targets together get one target at a time, of a sample.
    """
    threat = _first(threat_of(dataset, "full", "modification", "any-flip"), options.targets)
    with threads_for(dataset.num_nodes):
        for kind in options.victims:
            victim = trained(kind, dataset, options, seed=0)
            head = {"data": dataset.name, "victim": kind}
            for edges in options.removals:
                attack = ModificationAnyRemovals(edges=edges, seconds=options.seconds)
                wider = _first(
                    threat_of(dataset, "full", "modification", attack.name), options.targets
                )
                yield (
                    head
                    | {"attack": f"any-removals, {edges}"}
                    | proofs_of(attack, dataset, wider, victim)[0]
                )
            every = ModificationAnyFlip(seconds=options.seconds)
            row, fallen, proven = proofs_of(every, dataset, threat, victim)
            yield head | {"attack": "any-flip"} | row
            for name in options.attacks:
                yield head | judged(name, dataset, threat, victim, fallen, proven, options.sample)


def proofs_of(
    attack: ProvingAttack, dataset: Dataset, threat: Threat, victim: Victim
) -> tuple[Row, Tensor, Tensor]:
    """Return the row of a proving attack, and which targets fall and which do not, bool [t]."""
    begin = time.perf_counter()
    verdicts = attack.verdicts(dataset.graph, threat, victim)
    seconds = time.perf_counter() - begin
    right = _right(victim, dataset.graph, threat.targets)
    fallen = torch.zeros_like(right)
    fallen[verdicts.fallen] = True
    proven = right & ~fallen
    proven[verdicts.undecided] = False
    row: Row = {
        "targets": right.numel(),
        "right": int(right.sum()),
        "proven": int(proven.sum()),
        "fallen": int(fallen.sum()),
        "undecided": verdicts.undecided.numel(),
        "flips": verdicts.tried,
        "seconds": round(seconds, 1),
    }
    return row, fallen, proven


def table(rows: Sequence[Row]) -> str:
    """Return all rows."""
    return markdown(rows, COLUMNS)


def judged(
    name: str,
    dataset: Dataset,
    threat: Threat,
    victim: Victim,
    fallen: Tensor,
    proven: Tensor,
    sample: int,
) -> Row:
    """Return the share of fallen targets that an attack fells, and how many proven ones."""
    attack, graph = load_attack("modification", name), dataset.graph
    together = not is_targeted("modification", name)
    chosen = [
        mask.nonzero().squeeze(1)[: sample if together else None] for mask in (fallen, proven)
    ]
    begin = time.perf_counter()
    felled = []
    for indices in chosen:
        generator = torch.Generator().manual_seed(derive_seed("attack", name, 0))
        parts = [indices[at : at + 1] for at in range(indices.numel())] if together else [indices]
        lost = 0
        for part in parts:
            limits = _limits(threat, part, together=together)
            perturbation = attack.perturb(graph.clone(), limits, victim, generator)
            verify(perturbation, graph, limits)
            lost += _lost(victim, graph, perturbation, limits.targets, together=together)
        felled.append(lost)
    return {
        "attack": name,
        "fallen": chosen[0].numel(),
        "proven": chosen[1].numel(),
        "found": round(felled[0] / max(1, chosen[0].numel()), 3),
        "broken": felled[1],
        "seconds": round(time.perf_counter() - begin, 1),
    }


def _first(threat: Threat, count: int) -> Threat:
    return _limits(threat, torch.arange(min(count, threat.targets.numel())), together=False)


def _limits(threat: Threat, indices: Tensor, *, together: bool) -> Threat:
    """Return the threat of one flip to each of some targets, or to a single one."""
    assert threat.target_budgets is not None
    budgets = threat.target_budgets[indices]
    return replace(
        threat,
        targets=threat.targets[indices],
        edge_budget=int(budgets.sum()),
        target_budgets=None if together else budgets,
    )


def _right(victim: Victim, graph: Data, targets: Tensor) -> Tensor:
    with torch.no_grad():
        predicted = victim(graph.x, graph.edge_index)[targets].argmax(1)
    return predicted == graph.y[targets]


def _lost(
    victim: Victim, graph: Data, perturbation: Perturbation, targets: Tensor, *, together: bool
) -> int:
    """Return how many of the targets are wrong under the flips, or each under its own."""
    if together:
        return int((~_right(victim, apply(graph, perturbation), targets)).sum())
    lost = 0
    for index in torch.unique(perturbation.flip_targets).tolist():
        attacked = apply(graph, perturbation.of_target(index))
        lost += int(not _right(victim, attacked, targets[index : index + 1]))
    return lost
