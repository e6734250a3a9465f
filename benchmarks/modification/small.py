"""Proven shares of the models of the zoo on parts of Cora, beside what attacks find.

Trained on the whole graph with the public split, and asked about parts of 60 nodes as graphs of
their own: on so few nodes (`MOST_WHOLE`) a model is called for each change, so that what a flip
reaches need not be known. A part is a test node and those nearest to it; targets are its nodes
outside the training set. Counts are sums over the parts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order
from torch import Tensor

from benchmarks.modification.arena import check_names, public_planetoid
from benchmarks.modification.exact import judged, proofs_of
from benchmarks.rows import Row, grouped, markdown
from grb_check import models
from grb_check.attacks.budgets import threat_of
from grb_check.attacks.modification.any_flip import ModificationAnyFlip
from grb_check.attacks.modification.any_removals import ModificationAnyRemovals
from grb_check.attacks.modification.shared.whole_trials import MOST_WHOLE
from grb_check.attacks.verdicts import ProvingAttack
from grb_check.datasets.dataset import Dataset
from grb_check.errors import GradientError
from grb_check.evaluation.devices import threads_for
from grb_check.gradients.victim import Victim
from grb_check.models.zoo import ZOO
from grb_check.training.building import build_victim

NODES: Final = MOST_WHOLE
ATTACKS: Final = ("nettack", "sga", "fga", "prbcd")
COLUMNS: Final = ("model", "right", "any-flip", "any-removals", *ATTACKS, "broken")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="has planetoid/Cora/raw/ind.*")
    parser.add_argument("--models", nargs="+", default=list(ZOO), help="of grb_check.models")
    parser.add_argument("--attacks", nargs="*", default=ATTACKS, help="names, with modifiers")
    parser.add_argument("--parts", type=int, default=3, help="without common nodes")


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each model, part and attack."""
    check_names(options.attacks)
    whole = replace(public_planetoid(options.data / "planetoid", "Cora"), transductive=True)
    whole.graph.x = whole.graph.x / whole.graph.x.sum(1, keepdim=True).clamp(min=1)
    parts = list(islice(parts_of(whole), options.parts))
    for model in options.models:
        with threads_for(whole.num_nodes):
            victim = build_victim(
                getattr(models, model)(whole.num_features, whole.num_classes),
                whole,
                name=model,
                seed=0,
                device=torch.device("cpu"),
            )
        for part in parts:
            for row in of_part(part, victim, options.attacks):
                yield {"model": model, "part": part.name} | row


def parts_of(dataset: Dataset) -> Iterator[Dataset]:
    """Yield the first test nodes, each with those nearest to it, that have no node in common."""
    graph, size = dataset.graph, dataset.num_nodes
    ones = torch.ones(graph.edge_index.shape[1]).numpy()
    adjacency = csr_matrix((ones, graph.edge_index.numpy()), shape=(size, size))
    taken = torch.zeros(size, dtype=torch.bool)
    for centre in dataset.test["full"].tolist():
        near = breadth_first_order(adjacency, centre, return_predecessors=False)[:NODES]
        nodes = torch.from_numpy(near).long().sort().values
        if nodes.numel() == NODES and not taken[nodes].any():
            taken[nodes] = True
            yield _part(dataset, nodes, centre)


def _part(dataset: Dataset, nodes: Tensor, centre: int) -> Dataset:
    """Return the graph of some nodes, int64 [n], in order."""
    graph = dataset.graph.subgraph(nodes)
    trained_with = torch.isin(nodes, dataset.train)
    return replace(
        dataset,
        name=f"cora-{centre}",
        graph=graph,
        train=trained_with.nonzero().squeeze(1),
        val=torch.isin(nodes, dataset.val).nonzero().squeeze(1),
        test={"full": (~trained_with).nonzero().squeeze(1)},
    )


def of_part(dataset: Dataset, victim: Victim, attacks: Sequence[str]) -> Iterator[Row]:
    """Yield what is proven of a model, and then what each attack finds with one flip."""
    yield _proven(ModificationAnyRemovals(edges=1), dataset, victim)[0]
    row, fallen, proven = _proven(ModificationAnyFlip(), dataset, victim)
    yield row
    threat = threat_of(dataset, "full", "modification", "any-flip")
    for name in attacks:
        try:
            yield judged(name, dataset, threat, victim, fallen, proven, NODES)
        except GradientError as error:
            yield {"attack": name, "error": str(error)}


def _proven(attack: ProvingAttack, dataset: Dataset, victim: Victim) -> tuple[Row, Tensor, Tensor]:
    threat = threat_of(dataset, "full", "modification", attack.name)
    row, fallen, proven = proofs_of(attack, dataset, threat, victim)
    return {"attack": attack.name} | row, fallen, proven


def table(rows: Sequence[Row]) -> str:
    """Return a line for each model: its right targets, and of these the proven and what is left."""
    lines = []
    for (model,), group in grouped(rows, ("model",)).items():
        by_attack = {str(key[0]): some for key, some in grouped(group, ("attack",)).items()}
        right = sum(row["right"] for row in by_attack["any-flip"])
        shares: Row = {
            attack: f"{_left(some, right) / max(1, right):.1%}"
            for attack, some in by_attack.items()
            if not any("error" in row for row in some)
        }
        broken = sum(row.get("broken", 0) for row in group)
        lines.append({"model": model, "right": right, "broken": broken} | shares)
    return markdown(lines, COLUMNS)


def _left(rows: Sequence[Row], right: int) -> int:
    """Return how many targets are proven, or are left by an attack."""
    if "right" in rows[0]:
        return int(sum(row["proven"] for row in rows))
    return right - sum(round(row["found"] * row["fallen"]) for row in rows)
