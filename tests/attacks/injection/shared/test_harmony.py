"""The homophily of injected nodes, and its effect on attacks."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LinearModel, graph_of, graphs, pairs
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.harmony import homophily_of_features, homophily_of_weights
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import Perturbation, Threat, apply


@st.composite
def injections(draw: st.DrawFn) -> tuple[Data, Tensor, Tensor]:
    """A graph, links (also among injected nodes) and features of nodes, some without a link."""
    graph = draw(graphs())
    count, num_nodes = draw(st.integers(1, 4)), graph.num_nodes
    every = st.sampled_from([(new, old) for new in range(count) for old in range(num_nodes)])
    outer = set(draw(st.lists(every, max_size=6)))
    possible = [(a, num_nodes + b) for a in range(count) for b in range(a + 1, count)]
    inner = set(draw(st.lists(st.sampled_from(possible)))) if possible else set()
    links = pairs(sorted(outer | inner))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return graph, links, torch.randn((count, graph.x.shape[1]), generator=generator)


def by_definition(graph: Data, links: Tensor, features: Tensor) -> float:
    """Return the homophily by definition 4.1, node by node, on the attacked graph."""
    attacked = apply(graph, Perturbation(injected_x=features, injected_edges=links))
    x, num_nodes = attacked.x.double(), graph.num_nodes
    edges = attacked.edge_index.t().tolist()
    around: dict[int, list[int]] = {node: [] for node in range(attacked.num_nodes)}
    for first, second in edges:
        around[first].append(second)
    scores = []
    for node in range(num_nodes, attacked.num_nodes):
        degree = len(around[node])
        received = sum(
            (x[other] / math.sqrt(len(around[other]) * degree) for other in around[node]),
            torch.zeros(x.shape[1], dtype=torch.float64),
        )
        lengths = float(received.norm() * x[node].norm())
        scores.append(float(received @ x[node]) / lengths if lengths else 0.0)
    return sum(scores) / len(scores)


@given(injections())
@settings(deadline=None)
def test_homophily_is_that_of_the_definition(given) -> None:
    """With links among injected nodes, to isolated nodes, and existing features of any sign."""
    graph, links, features = given
    actual = homophily_of_features(graph, links, features.shape[0])(features)
    assert float(actual) == pytest.approx(by_definition(graph, links, features), abs=1e-4)


@given(injections())
@settings(deadline=None)
def test_gradient_of_homophily_is_right(given) -> None:
    """Against finite differences in float64."""
    graph, links, features = given
    graph.x = graph.x.double() + 0.01
    homophily = homophily_of_features(graph, links, features.shape[0])
    assert torch.autograd.gradcheck(homophily, features.double().requires_grad_())


@given(injections(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_weights_of_zero_and_one_are_links(given, random) -> None:
    """For any order of the candidates."""
    graph, links, features = given
    links = links[:, links[1] < graph.num_nodes]
    candidates = list(range(graph.num_nodes))
    random.shuffle(candidates)
    weights = torch.zeros(features.shape[0], graph.num_nodes)
    weights[links[0], torch.tensor(candidates).argsort()[links[1]]] = 1.0
    expected = homophily_of_features(graph, links, features.shape[0])(features)
    relaxed = homophily_of_weights(graph, torch.tensor(candidates))
    torch.testing.assert_close(relaxed(features, weights), expected, rtol=1e-5, atol=1e-5)


def test_gradient_of_weights_is_right() -> None:
    """Against finite differences in float64, a candidate without any edge included."""
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64)
    graph = graph_of(4, [(0, 1), (1, 2)], x=x)
    features = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    weights = (torch.rand(2, 3, dtype=torch.float64) + 0.1).requires_grad_()
    relaxed = homophily_of_weights(graph, torch.tensor([3, 0, 1]))
    assert torch.autograd.gradcheck(relaxed, (features, weights))


def chains() -> Data:
    """Three classes, each a chain of 50 nodes: three columns separate them, eight are near 1."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(150) % 3
    x = 0.3 * torch.randn((150, 11), generator=generator)
    x[:, 3:] += 1
    x[torch.arange(150), y] += 1
    return graph_of(150, [(i, i + 3) for i in range(147)], x=x, y=y)


CHAINS = chains()
BY_CLASS_COLUMN = LinearModel(11, 3, weight=torch.eye(11, 3))
THREAT = Threat(
    scenario="injection",
    targets=torch.arange(150),
    injected_nodes=30,
    edges_per_injected_node=10,
    feature_range=(-2.0, 2.0),
)


def injected(name: str, harmony: float) -> Perturbation:
    attack = load_attack("injection", f"{name}+iterations=60+step_size=0.05+harmony={harmony}")
    return attack.perturb(CHAINS, THREAT, BY_CLASS_COLUMN, torch.Generator().manual_seed(0))


def accuracy_where_dissimilar_edges_are_dropped(perturbation: Perturbation) -> float:
    """Return the accuracy behind a defence that drops edges of cosine similarity below 0.1."""
    attacked = apply(CHAINS, perturbation)
    first, second = attacked.edge_index
    similar = F.cosine_similarity(attacked.x[first], attacked.x[second]) >= 0.1
    logits = BY_CLASS_COLUMN(attacked.x, attacked.edge_index[:, similar])
    return float((logits[:150].argmax(1) == CHAINS.y).float().mean())


def test_harmony_makes_injected_nodes_like_their_neighbours() -> None:
    """With a weight of 5 FGSM's nodes are nearly aligned with them, with 0 they are not."""
    similarities = []
    for harmony in (0.0, 5.0):
        perturbation = injected("fgsm", harmony)
        homophily = homophily_of_features(CHAINS, perturbation.injected_edges, 30)
        similarities.append(float(homophily(perturbation.injected_x)))
    assert similarities[0] < 0.1
    assert similarities[1] > 0.9


@pytest.mark.parametrize(
    ("name", "more"),
    [("fgsm", 0.4), ("pgd", 0.2), ("speit", 0.4), ("tdgia", 0.6), ("agia+exchanges=60", 0.8)],
)
def test_harmony_gets_past_a_defence_that_drops_dissimilar_edges(name: str, more: float) -> None:
    """The defended model has an accuracy of 1 when clean; harmony costs it that much more.

    Without harmony the eight columns that all nodes share get no gradient, and the injected nodes
    stay dissimilar to all others.
    """
    assert accuracy_where_dissimilar_edges_are_dropped(Perturbation()) == 1.0
    plain, harmonious = (
        accuracy_where_dissimilar_edges_are_dropped(injected(name, harmony))
        for harmony in (0.0, 0.1)
    )
    assert harmonious < plain - more
