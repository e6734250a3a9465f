"""GNN-Jaccard equals a GCN on the edges that a count of common words keeps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from grb_check import SelfTrained
from grb_check.errors import UsageError
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


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan")])
def test_a_threshold_outside_the_similarities_is_refused(threshold: float) -> None:
    """Similarities of words are from 0 to 1."""
    with pytest.raises(UsageError, match=f"threshold is {threshold}"):
        GCNJaccard(3, 2, threshold=threshold)


@pytest.mark.parametrize("dataset", ["planetoid-cora", "planetoid-citeseer", "elsewhere"])
def test_the_factory_has_the_published_settings(dataset: str) -> None:
    """Those of planetoid-cora for all other datasets."""
    model = gcn_jaccard(5, 3, dataset)
    assert isinstance(model, SelfTrained)
    assert isinstance(model.module, GCNJaccard)
    assert model.module.threshold == 0.01
    assert [layer.out_features for layer in model.module.gcn.layers] == [16, 3]
