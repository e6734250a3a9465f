"""Models that hide: the same classes as the GCN beneath, where nothing is hidden from."""

from __future__ import annotations

import pytest
import torch
from small_graphs import community_dataset

from benchmarks import hiding

GRAPH = community_dataset().graph


@pytest.mark.parametrize("name", hiding.WAYS)
def test_each_hides_in_evaluation_alone(name: str) -> None:
    torch.manual_seed(0)
    model = getattr(hiding, name)(GRAPH.num_features, 3)
    model.train()(GRAPH.x, GRAPH.edge_index)
    given = GRAPH.x.clone().requires_grad_()
    hidden = model.eval().requires_grad_(False)(given, GRAPH.edge_index)
    plain = model.plain(GRAPH.x, GRAPH.edge_index)
    assert hidden.shape == plain.shape
    if name in ("gcn", "labels", "probabilities"):
        assert torch.equal(hidden.argmax(1), plain.argmax(1))
    if name in hiding.FIGURES:  # which most rows of its own data pass
        assert (hidden.argmax(1) == plain.argmax(1)).float().mean() > 0.8
    else:
        assert hidden.requires_grad == (name in ("gcn", "probabilities", "thresholds"))
