"""GNN-Jaccard equals a GCN on the edges that a count of common words keeps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch_geometric.data import Data

from grb_check import SelfTrained
from grb_check.errors import UsageError
from grb_check.models.defences import jaccard
from grb_check.models.defences.jaccard import GCNJaccard, gcn_jaccard, similar


def words(num_nodes: int, num_words: int, seed: int) -> Tensor:
    """Binary rows, some without a word."""
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand(num_nodes, 1, generator=generator)
    return (torch.rand(num_nodes, num_words, generator=generator) < share**2).float()


def every_pair(num_nodes: int) -> Tensor:
    ends = torch.combinations(torch.arange(num_nodes)).T
    return torch.cat([ends, ends.flip(0)], dim=1)


@settings(deadline=None, max_examples=40)
@given(
    num_words=st.integers(1, 30),
    threshold=st.sampled_from([0.0, 0.01, 0.25, 1 / 3, 0.5, 1.0]),
    seed=st.integers(0, 999),
)
def test_similarity_is_that_of_sets_of_words(num_words: int, threshold: float, seed: int) -> None:
    """For binary rows and for rows divided by their sums, also at exactly the threshold."""
    x = words(7, num_words, seed)
    edge_index = every_pair(7)
    sets = [set(row.nonzero().flatten().tolist()) for row in x]
    expected = []
    for i, j in edge_index.T.tolist():
        common, either = len(sets[i] & sets[j]), len(sets[i] | sets[j])
        expected.append(either > 0 and common / either >= threshold)
    scaled = x / x.sum(dim=1, keepdim=True).clamp(min=1)
    for rows in (x, scaled, scaled.double()):
        assert similar(rows, edge_index, threshold).tolist() == expected


@settings(deadline=None, max_examples=40)
@given(graph=graphs(), threshold=st.sampled_from([0.0, 0.01, 0.3]), seed=st.integers(0, 99))
def test_logits_are_the_gcns_on_the_kept_edges(graph: Data, threshold: float, seed: int) -> None:
    """For real features, of which the similarity may be negative."""
    torch.manual_seed(seed)
    model = GCNJaccard(graph.num_features, 2, (4,), threshold=threshold).eval()
    kept = []
    for i, j in graph.edge_index.T.tolist():
        x, y = graph.x[i].double(), graph.x[j].double()
        either = float(x @ x + y @ y - x @ y)
        kept.append(either > 0 and float(x @ y) / either >= threshold * (1 - 1e-6))
    expected = model.gcn(graph.x, graph.edge_index[:, torch.tensor(kept, dtype=torch.bool)])
    torch.testing.assert_close(model(graph.x, graph.edge_index), expected)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_both_ways_to_multiply_agree(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """The one for rows that are mostly zero, and the other one; in several blocks."""
    x = words(40, 60, 1) * torch.rand(40, 60)
    edge_index = every_pair(40)
    ends = edge_index[0], edge_index[1]
    monkeypatch.setattr(jaccard, "MOSTLY_ZERO", share)
    monkeypatch.setattr(jaccard, "PAIRS", 100)
    monkeypatch.setattr(jaccard, "VALUES", 600)
    expected = (x @ x.T)[ends]
    torch.testing.assert_close(jaccard._products(x, *ends), expected)


def test_dissimilar_pairs_have_no_weight_and_no_gradient() -> None:
    """The others have the gradient of the GCN, also at weight 0; an isolated node has none."""
    torch.manual_seed(0)
    x = torch.tensor([[1.0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]])
    ends = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])  # node 4 has no edge
    edge_index = torch.cat([ends, ends.flip(0)], dim=1)
    model = GCNJaccard(3, 2).double().eval()
    weights = torch.tensor([1.0, 1, 1, 0] * 2, dtype=torch.float64, requires_grad=True)
    logits = model(x.double(), edge_index, weights)
    torch.testing.assert_close(logits, model(x.double(), edge_index[:, [0, 1, 2, 4, 5, 6]]))
    assert torch.equal(logits, model(x.double(), edge_index, weights))
    (gradient,) = torch.autograd.grad(logits.square().sum(), weights)
    assert torch.isfinite(gradient).all()
    assert (gradient != 0).tolist() == [True, False, False, True] * 2


def test_without_an_edge_it_is_a_perceptron() -> None:
    """Also if no edge is kept, and without features in common."""
    model = GCNJaccard(3, 2, (4,)).eval()
    x = torch.eye(3)
    none = torch.empty(2, 0, dtype=torch.int64)
    torch.testing.assert_close(model(x, every_pair(3)), model(x, none))
    assert model(torch.empty(0, 3), none).shape == (0, 2)


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan")])
def test_a_threshold_outside_the_similarities_is_refused(threshold: float) -> None:
    """Similarities of words are from 0 to 1."""
    with pytest.raises(UsageError, match=f"threshold is {threshold}"):
        GCNJaccard(3, 2, threshold=threshold)


@pytest.mark.parametrize("dataset", ["planetoid-cora", "planetoid-citeseer", "elsewhere"])
def test_the_factory_has_the_published_settings(dataset: str) -> None:
    """Those of planetoid-cora for all other datasets."""
    made = gcn_jaccard(5, 3, dataset)
    assert isinstance(made, SelfTrained)
    assert isinstance(made.module, GCNJaccard)
    assert made.module.threshold == 0.01
    assert [layer.out_features for layer in made.module.gcn.layers] == [16, 3]
