"""Thresholds of models whose figures are recalls."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.nn.models import GCN

from grb_check.attacks.protocol import FlipSets
from grb_check.datasets.metric import measured_by
from grb_check.datasets.recall import Recall
from grb_check.evaluation.thresholds import at_threshold, offset_of
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.gradients.rescaled import Rescaled
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN as OurGCN
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN
from grb_check.victims.wrappers import freeze

DATASET = measured_by(community_dataset(num_nodes=600), "recall@0.05+positive=1")
GRAPH = DATASET.graph


def victim(module: nn.Module, unit: float = 1.0) -> Victim:
    module.eval()
    freeze(module)
    return Victim(Adapter(module, "model", PLAIN), 3, unit=unit)


def gcn() -> nn.Module:
    torch.manual_seed(0)
    return GCN(8, 16, num_layers=2, out_channels=3)


def thresholded(model: Victim | Rescaled) -> TrainedModel:
    return at_threshold(TrainedModel(model, predict(model, GRAPH, 0)), DATASET, 0)


def positives(model: TrainedModel, nodes: Tensor) -> Tensor:
    return (model.predicted[nodes] == 1) & (GRAPH.y[nodes] != 1)


@given(
    scores=st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0, 2.5, 7.0]), min_size=4),
    share=st.sampled_from([0.1, 0.25, 0.5]),
    positive=st.integers(0, 2),
)
def test_no_more_false_alarms_than_are_allowed(
    scores: list[float], share: float, positive: int
) -> None:
    """And one more would be too many, unless scores are equal."""
    recall = Recall(positive, share)
    allowed = recall.allowed(len(scores))
    if not allowed:
        return
    logits = torch.zeros(len(scores), 3)
    logits[:, positive] = torch.tensor(scores)
    classes = torch.full((len(scores),), (positive + 1) % 3)
    moved = logits - offset_of(logits, classes, recall)
    alarms = int((moved.argmax(1) == positive).sum())
    assert alarms <= allowed
    if len(set(scores)) == len(scores):
        assert alarms == allowed


def test_one_extreme_logit_moves_no_threshold() -> None:
    """Halfway to the next higher score of any node, be it near: what is found stays found."""
    scores = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0005, -1000.0])
    logits = torch.stack([torch.zeros(6), scores, torch.full((6,), -2000.0)], dim=1)
    classes = torch.tensor([0, 0, 0, 0, 1, 0])
    moved = logits - offset_of(logits, classes, Recall(1, 0.2))
    assert (moved.argmax(1) == 1).tolist() == [False] * 4 + [True, False]


@pytest.mark.parametrize("unit", [1.0, 4.0])
@pytest.mark.parametrize("rescaled", [False, True])
def test_the_share_is_that_of_clean_validation_nodes(unit: float, rescaled: bool) -> None:
    """Whatever the unit of the logits, and that of the features."""
    plain = victim(gcn(), unit)
    model = thresholded(Rescaled(plain, lambda x: 2 * x) if rescaled else plain)
    negatives = int((GRAPH.y[DATASET.val] != 1).sum())
    assert int(positives(model, DATASET.val).sum()) == int(0.05 * negatives)
    assert torch.equal(model.predicted, predict(model.victim, GRAPH, 0))


def test_a_copy_that_was_never_called_has_the_same_threshold() -> None:
    model = TrainedModel(victim(gcn()), torch.zeros(600), uncalled=victim(gcn()))
    at_threshold(model, DATASET, 0)
    assert model.uncalled is not None
    assert torch.equal(predict(model.uncalled, GRAPH, 0), model.predicted)


def test_an_accuracy_has_no_threshold() -> None:
    plain = TrainedModel(victim(gcn()), torch.zeros(600))
    assert at_threshold(plain, community_dataset(num_nodes=600), 0).victim.offset is None


def test_only_the_clean_graph_is_looked_at() -> None:
    """A threshold on attacked data would follow the attack."""
    seen = []

    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = gcn()

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            seen.append((x.clone(), edge_index.clone()))
            return self.inner(x, edge_index)

    model = thresholded(victim(Watched()))
    assert seen
    for x, edge_index in seen:
        assert torch.equal(x, GRAPH.x)
        assert torch.equal(edge_index, GRAPH.edge_index)
    before = model.victim.offset
    attacked = GRAPH.edge_index[:, :-40]
    model.victim(torch.randn_like(GRAPH.x), attacked)
    assert model.victim.offset is before


@pytest.mark.parametrize("unit", [1.0, 4.0])
@pytest.mark.parametrize("ours", [False, True])
def test_every_form_of_a_model_has_it(ours: bool, unit: float) -> None:
    """Injected rows, gradients of pairs, and trials of flips, in any unit of the logits."""
    torch.manual_seed(0)
    module = OurGCN(8, 3, (16,)) if ours else gcn()
    moved = thresholded(victim(module, unit)).victim
    assert isinstance(moved, Victim)
    offset, plain = moved.offset, replace(moved, offset=None)
    assert offset is not None
    assert offset[1] != 0
    shift = offset / unit
    x, edges, targets = GRAPH.x, GRAPH.edge_index, torch.arange(1, 40)
    expected = plain(x, edges)[targets] - shift
    assert torch.allclose(moved(x, edges)[targets], expected)
    new = torch.ones(1, 8)
    link = torch.tensor([[600, 5], [5, 600]])
    linked = torch.cat([edges, link], 1)
    injected = [m.with_injected(x, linked, 1, targets)(new) for m in (plain, moved)]
    assert torch.allclose(injected[1], injected[0] - shift, atol=1e-5)
    trials = moved.with_flips(x, edges, targets)
    assert trials is not None
    pairs = torch.tensor([[5], [17]])
    tried = trials.tried(FlipSets(pairs, torch.zeros(1, dtype=torch.int64), 1))
    flipped = torch.cat([edges, torch.tensor([[5, 17], [17, 5]])], 1)
    known = (plain(x, flipped)[targets] - shift)[tried.position]
    assert torch.allclose(tried.logits, known, atol=1e-5)

    def objective(logits: Tensor) -> Tensor:
        return logits[:, 1].square().sum()

    gradients = moved.pair_gradients(x, edges, targets, objective)
    assert gradients is not None
    first = plain.pair_gradients(x, edges, targets, lambda logits: objective(logits - shift))
    assert first is not None
    assert torch.allclose(gradients.at(pairs), first.at(pairs))
