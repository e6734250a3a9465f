"""Small graphs with injected nodes, and modules whose logits are compared on them."""

from __future__ import annotations

from typing import TypeAlias

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.utils import coalesce, to_undirected

from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention

# Existing nodes, injected nodes, `edge_index` and targets.
Attacked: TypeAlias = tuple[int, int, Tensor, Tensor]
WIDTH = 5


@st.composite
def attacked_graphs(draw: st.DrawFn) -> Attacked:
    """Existing nodes, injected nodes, their edges, and targets: none linked, some, or all."""
    num_nodes, count = draw(st.integers(2, 14)), draw(st.integers(1, 4))
    old, any_node = st.integers(0, num_nodes - 1), st.integers(0, num_nodes + count - 1)
    new = st.integers(num_nodes, num_nodes + count - 1)
    ends = [(0, 1), *draw(st.lists(st.tuples(old, old), max_size=20))]
    ends += [(num_nodes, 0), *draw(st.lists(st.tuples(new, any_node), max_size=8))]
    edge_index = torch.tensor([pair for pair in ends if pair[0] != pair[1]]).reshape(-1, 2).T
    edge_index = coalesce(to_undirected(edge_index, num_nodes=num_nodes + count))
    targets = draw(st.lists(old, unique=True, min_size=1))
    return num_nodes, count, edge_index, torch.tensor(targets)


def adapter_of(module: nn.Module) -> Adapter:
    module = module.double().eval().requires_grad_(False)
    return Adapter(module, "mine", detect_convention(module, "forward", "mine"))


def compare(result: Tensor, expected: Tensor, *inputs: Tensor) -> None:
    torch.testing.assert_close(result, expected, rtol=1e-8, atol=1e-8)
    direction = torch.randn(expected.shape, dtype=expected.dtype)
    for tensor in inputs:
        found_gradient, gradient = (
            torch.autograd.grad((logits * direction).sum(), tensor, retain_graph=True)[0]
            for logits in (result, expected)
        )
        torch.testing.assert_close(found_gradient, gradient, rtol=1e-6, atol=1e-8)


def community(num_nodes: int = 30, count: int = 3) -> Attacked:
    generator = torch.Generator().manual_seed(0)
    forth = torch.randint(num_nodes, (2, 60), generator=generator)
    links = torch.stack([torch.arange(num_nodes, num_nodes + count), torch.arange(count)])
    edges = torch.cat([forth[:, forth[0] != forth[1]], links], dim=1)
    return num_nodes, count, coalesce(to_undirected(edges)), torch.arange(0, num_nodes, 2)
