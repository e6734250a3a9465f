"""The part of a graph on which some logits depend."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import PairNorm
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE

from grb_check.victims.receptive_field import receptive_hops, receptive_part


def _chain(length: int) -> Tensor:
    forth = torch.stack([torch.arange(length - 1), torch.arange(1, length)])
    return torch.cat([forth, forth.flip(0)], dim=1)


@settings(deadline=None, max_examples=40)
@given(
    kind=st.sampled_from([GCN, GAT, GIN, GraphSAGE]),
    layers=st.integers(1, 3),
    norm=st.sampled_from([None, "BatchNorm", "LayerNorm"]),
    seed=st.integers(0, 9),
)
def test_logits_on_the_part_are_those_on_the_whole(
    kind: type[nn.Module], layers: int, norm: str | None, seed: int
) -> None:
    """On a chain with shortcuts, for each model with a known receptive field.

    Four hops from two targets reach 18 nodes, and up to 7 more for each shortcut: never all.
    """
    torch.manual_seed(seed)
    extra = torch.randint(200, (2, 12))
    extra = extra[:, extra[0] != extra[1]]
    edge_index = torch.cat([_chain(200), extra, extra.flip(0)], dim=1).unique(dim=1)
    arguments = {"norm": norm}
    if norm == "LayerNorm":
        arguments["norm_kwargs"] = {"mode": "node"}
    model = kind(4, 8, layers, 3, **arguments).eval()
    hops = receptive_hops(model)
    assert hops == layers + 1
    targets = torch.tensor([7, 3])
    part = receptive_part(targets, hops, edge_index, 200)
    assert part is not None
    nodes, edges, places = part
    x = torch.randn(200, 4)
    torch.testing.assert_close(
        model(x[nodes], edges)[places], model(x, edge_index)[targets], rtol=1e-5, atol=1e-5
    )


def test_a_part_is_smaller_than_the_graph() -> None:
    """On a chain four hops reach four nodes; a part with nearly all nodes is not used."""
    nodes, edges, places = receptive_part(torch.tensor([0]), 4, _chain(50), 50) or ()
    assert nodes.tolist() == [0, 1, 2, 3, 4]
    assert edges.shape == (2, 8)
    assert places.tolist() == [0]
    assert receptive_part(torch.tensor([2]), 4, _chain(6), 6) is None


class _Own(GCN):
    def forward(self, *args: object, **kwargs: object) -> Tensor:
        out: Tensor = super().forward(*args, **kwargs)
        return out - out.mean(0)


class _Centred(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def _hooked() -> nn.Module:
    model = GCN(4, 8, 2, 3)
    model.convs[0].register_forward_hook(lambda module, args, out: out - out.mean(0))
    return model


def _message_hooked() -> nn.Module:
    model = GCN(4, 8, 2, 3)
    model.convs[0].register_message_forward_hook(lambda module, args, out: out - out.mean(0))
    return model


def _of_its_own() -> nn.Module:
    model = GCN(4, 8, 2, 3)
    forward = model.forward
    model.forward = lambda *args, **kwargs: _Centred()(forward(*args, **kwargs))
    return model


def _foreign_part() -> nn.Module:
    model = GIN(4, 4, 2, 3)
    model.convs[0].nn = _Centred()
    return model


@pytest.mark.parametrize(
    "model",
    [
        _Own(4, 8, 2, 3),
        _hooked(),
        GCN(4, 8, 2, 3, norm=PairNorm()),
        GCN(4, 8, 2, 3, norm="LayerNorm"),
        GCN(4, 8, 2, 3, act=nn.Softmax(dim=0)),
        GIN(4, 8, 1, 3, norm="GraphNorm"),
        GCN(4, 8, 2, 3, norm="BatchNorm", norm_kwargs={"track_running_stats": False}),
        _foreign_part(),
        _message_hooked(),
        _of_its_own(),
        nn.Linear(4, 3),
    ],
    ids=[
        "subclass",
        "hook",
        "PairNorm",
        "LayerNorm over the graph",
        "activation",
        "norm inside a layer",
        "batch statistics",
        "part of a layer",
        "hook on messages",
        "forward of the instance",
        "other",
    ],
)
def test_what_is_not_certain_gets_the_whole_graph(model: nn.Module) -> None:
    """A statistic over all nodes makes every logit depend on every node."""
    assert receptive_hops(model) is None
