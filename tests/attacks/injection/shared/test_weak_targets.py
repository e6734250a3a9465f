"""Defectiveness of targets, and their groups by runner-up class."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graph_of, graphs, threats

from grb_check.attacks.injection.shared.links import no_links
from grb_check.attacks.injection.shared.weak_targets import (
    clean_probabilities,
    defectiveness,
    label_groups,
    mean_probabilities,
)
from grb_check.attacks.threat import Threat
from grb_check.evaluation.surrogates import Ensemble

STAR = graph_of(5, [(0, 1), (0, 2), (0, 3)], y=torch.zeros(5, dtype=torch.int64))


def threat_of(targets: list[int], edges: int = 4) -> Threat:
    return Threat(
        scenario="injection",
        targets=torch.tensor(targets, dtype=torch.int64),
        injected_nodes=2,
        edges_per_injected_node=edges,
    )


def test_score_by_hand() -> None:
    """(p + 2) (0.9 / d + 0.1 / sqrt(d b)), where d includes the loop and injected links."""
    links = torch.tensor([[0, 1, 0], [0, 0, 5]])  # two to node 0, one among the injected
    certainty = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
    score = defectiveness(STAR, links, threat_of([0, 1]), certainty)
    expected = [2.5 * (0.9 / 6 + 0.1 / math.sqrt(24)), 2.25 * (0.9 / 2 + 0.1 / math.sqrt(8))]
    assert score.tolist() == pytest.approx(expected)


@given(st.data())
@settings(deadline=None)
def test_score_is_positive_and_falls_with_each_link(data) -> None:
    """On any graph, even with no edge allowed; scores of other targets are unchanged."""
    graph = data.draw(graphs())
    threat = data.draw(threats(graph, "injection"))
    count = threat.targets.numel()
    certainty = torch.full((count, int(graph.y.max()) + 1), 0.5)
    before = defectiveness(graph, no_links(), threat, certainty)
    assert (before > 0).all()
    if not count:
        return
    index = data.draw(st.integers(0, count - 1))
    links = torch.tensor([[0], [int(threat.targets[index])]])
    after = defectiveness(graph, links, threat, certainty)
    assert [i for i in range(count) if after[i] != before[i]] == [index]
    assert after[index] < before[index]


def test_groups_are_pairs_of_label_and_runner_up() -> None:
    """Whether the label is the most probable class or not."""
    certainty = torch.tensor(
        [[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.5, 0.2, 0.3], [0.1, 0.7, 0.2], [0.6, 0.1, 0.3]]
    )
    labels = torch.tensor([0, 0, 0, 1, 1])
    first, lost, towards_two, other_label, lost_too = label_groups(certainty, labels).tolist()
    assert first == lost == 0 * 3 + 1
    assert towards_two == 0 * 3 + 2
    assert other_label == 1 * 3 + 2
    assert lost_too == 1 * 3 + 0


def test_probabilities_of_the_clean_graph_are_averaged_over_members() -> None:
    """Rows are in the order of the targets; no gradient is required."""
    graph = graph_of(4, [(0, 1), (1, 2)], x=torch.arange(8.0).reshape(4, 2))
    models = (LinearModel(2, 3, seed=1), LinearModel(2, 3, seed=2))
    probabilities = clean_probabilities(graph, threat_of([3, 1]), Ensemble(models))
    expected = [model(graph.x, graph.edge_index)[[3, 1]].softmax(1) for model in models]
    torch.testing.assert_close(probabilities, (expected[0] + expected[1]) / 2)
    logits = [torch.randn((2, 3), requires_grad=True) for _ in range(3)]
    mean = mean_probabilities(logits)
    torch.testing.assert_close(mean, sum(output.softmax(1) for output in logits).detach() / 3)
    assert not probabilities.requires_grad
    assert not mean.requires_grad
