"""Metattack, and PR-BCD along the same gradients: what they do to a model that they train."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.rnd import ModificationRnd
from grb_check.attacks.poisoning.meta_prbcd import PoisoningMetaPrbcd
from grb_check.attacks.poisoning.metattack import PoisoningMetattack
from grb_check.attacks.poisoning.retrained import retrained
from grb_check.attacks.protocol import Attack
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Threat, apply
from grb_check.errors import UsageError

NODES = 90


def blocks() -> tuple[Data, Threat]:
    """Three classes that show in edges, and hardly in features; a third of the nodes learn."""
    random = torch.Generator().manual_seed(3)
    y = torch.arange(NODES) % 3
    ends = torch.randint(NODES, (2, 1200), generator=random)
    selected = (ends[0] < ends[1]) & ((y[ends[0]] == y[ends[1]]) | (ends.sum(0) % 7 == 0))
    ends = torch.unique(ends[:, selected], dim=1)
    x = torch.randn((NODES, 8), generator=random) + 0.8 * torch.eye(3, 8)[y]
    graph = Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1), y=y)
    graph.train_mask = torch.arange(NODES) < NODES // 3
    targets = torch.arange(NODES // 3, NODES)
    return graph, Threat(scenario="modification", targets=targets, edge_budget=ends.shape[1] // 8)


def left(graph: Data, threat: Threat, attack: Attack) -> float:
    """The share of targets that a model classifies that was trained on the attacked graph."""
    perturbation = attack.perturb(graph, threat, None, torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    verify(perturbation, graph, threat)
    attacked = apply(graph, perturbation)
    model = retrained(graph, threat, (100,), torch.Generator().manual_seed(1))
    guessed = model(attacked.x, attacked.edge_index)[threat.targets].argmax(1)
    return float((guessed == graph.y[threat.targets]).float().mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [
        PoisoningMetattack(),
        PoisoningMetattack(loss="train"),
        PoisoningMetaPrbcd(iterations=30, block_size=400),
    ],
    ids=["self", "train", "meta-prbcd"],
)
def test_it_leaves_less_than_random_flips(attack: Attack) -> None:
    """As many of them."""
    graph, threat = blocks()
    assert left(graph, threat, attack) < left(graph, threat, ModificationRnd())


def test_unknown_settings_are_refused() -> None:
    """Those of the search too."""
    with pytest.raises(UsageError, match="loss"):
        PoisoningMetattack(loss="none")  # type: ignore[arg-type]
    of_training = [{"training_steps": steps} for steps in ((0, 3), (3, 3), (), 100)]
    for settings in (*of_training, {"iterations": 0}, {"objectives": ()}):
        with pytest.raises(UsageError, match=next(iter(settings))):
            PoisoningMetaPrbcd(**settings)  # type: ignore[arg-type]
