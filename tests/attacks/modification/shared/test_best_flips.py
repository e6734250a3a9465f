"""The best flips among all pairs are those of the dense matrix of gains."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor

from grb_check.attacks.modification.shared import best_flips as room
from grb_check.attacks.modification.shared.best_flips import RankedFlips, best_flips
from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set
from grb_check.attacks.protocol import PairGradients

NONE = torch.empty(0, dtype=torch.int64)


@st.composite
def gradients_of(draw: st.DrawFn, num_nodes: int) -> PairGradients:
    """Gradients of rank 0 to 3: random, with many ties, at few nodes, or negative everywhere."""
    kind = draw(st.sampled_from(["random", "ties", "few", "negative"]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    shape = (num_nodes, draw(st.integers(0, 3)))
    u, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    t = torch.randn(num_nodes, generator=generator, dtype=torch.float64)
    if kind == "ties":
        u, v, t = u.round(), v.round(), t.round()
    if kind == "few":
        v = v * (torch.rand(num_nodes, 1, generator=generator) < 0.3)
        t = torch.zeros_like(t)
    if kind == "negative":
        u, v, t = -u.abs(), v.abs(), -t.abs() - 1
    return PairGradients(u, v, t)


def allowed_gains(
    gradients: PairGradients, edges: EdgeSet, rows: Tensor, forbidden: Tensor
) -> dict[int, float]:
    """Return the gain of each allowed flip by its code, computed one by one."""
    near, gains = set(rows.tolist()), {}
    for pair in combinations(range(edges.num_nodes), 2):
        ends = torch.tensor(pair)[:, None]
        code = edges.encode(ends)
        if near & set(pair) and code not in forbidden:
            sign = -1 if edges.has(code) else 1
            gains[int(code)] = sign * float(gradients.at(ends))
    return gains


def check(ranking: RankedFlips, gains: dict[int, float], count: int) -> None:
    """Codes are distinct and allowed, gains are theirs, and none is larger."""
    codes = ranking.codes.tolist()
    assert len(set(codes)) == len(codes) == min(count, len(gains))
    assert ranking.gains.tolist() == pytest.approx([gains[code] for code in codes], abs=1e-9)
    expected = sorted(gains.values(), reverse=True)[:count]
    assert ranking.gains.tolist() == pytest.approx(expected, abs=1e-9)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_equal_to_the_dense_gains(data: st.DataObject) -> None:
    """For any rows and forbidden pairs, and blocks of one row or more."""
    graph = data.draw(graphs())
    edges = edge_set(graph)
    gradients = data.draw(gradients_of(graph.num_nodes))
    nodes = st.integers(0, graph.num_nodes - 1)
    rows = torch.tensor(data.draw(st.lists(nodes, unique=True)), dtype=torch.int64)
    every = edges.encode(torch.triu_indices(graph.num_nodes, graph.num_nodes, offset=1)).tolist()
    taken = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    forbidden = torch.tensor(taken, dtype=torch.int64)
    count = data.draw(st.integers(0, 40))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "FIRST", data.draw(st.sampled_from([1, 20, 2**17])))
        patch.setattr(room, "BLOCK", data.draw(st.sampled_from([1, 20, 2**21])))
        flips = best_flips(gradients, edges, rows, forbidden, count)
    check(flips, allowed_gains(gradients, edges, rows, forbidden), count)


def large(rank: int = 4) -> tuple[PairGradients, EdgeSet]:
    """300 nodes whose gradients decay from node to node, as they do around targets."""
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn((2, 300, rank), generator=generator)
    fall = torch.exp(-torch.arange(300) / 20.0)[torch.randperm(300, generator=generator)]
    codes = torch.randint(300 * 300, (2000,), generator=generator)
    first, second = codes // 300, codes % 300
    edges = EdgeSet(codes[first < second].unique(), 300)
    return PairGradients(u, v * fall[:, None], torch.zeros(300)), edges


def test_equal_to_the_dense_gains_on_more_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32, over many blocks."""
    gradients, edges = large()
    monkeypatch.setattr(room, "FIRST", 600)
    monkeypatch.setattr(room, "BLOCK", 3000)
    nodes, every = torch.arange(300), torch.triu_indices(300, 300, offset=1)
    dense = gradients.at(every)
    expected = torch.where(edges.has(edges.encode(every)), -dense, dense).topk(500).values
    flips = best_flips(gradients, edges, nodes, NONE, 500)
    torch.testing.assert_close(flips.gains, expected, rtol=1e-5, atol=1e-5)
    sign = torch.where(edges.has(flips.codes), -1, 1)
    torch.testing.assert_close(sign * gradients.at(edges.ends(flips.codes)), flips.gains)
