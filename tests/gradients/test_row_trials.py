"""Facts about logits under candidate flips with layers called on rows: they are the module's."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg
from flip_trials import Layered, checked_trials, flip_sets_of, made, searches
from hypothesis import given, settings

from grb_check.gradients import row_trials
from grb_check.gradients.row_trials import RowTrials

ON_ROWS = {
    "GAT": lambda: pyg.GAT(3, 4, 2, 3, heads=2),
    "GATv2": lambda: pyg.GAT(3, 4, 2, 3, v2=True),
    "maximum": lambda: pyg.GraphSAGE(3, 4, 3, 3, aggr="max"),
    "several aggregations": lambda: pyg.GraphSAGE(3, 4, 2, 3, aggr=["mean", "max", "std"]),
    "transformer, norm": lambda: Layered(
        pyg.TransformerConv(3, 4), pyg.GATConv(4, 3), torch.nn.LayerNorm(4)
    ),
}


@pytest.mark.parametrize("name", ON_ROWS)
@given(searches())
@settings(deadline=None, max_examples=12)
def test_changed_rows_are_those_of_a_forward_pass(name, search) -> None:
    """For layers without a closed form, with whatever is row by row around them."""
    assert isinstance(checked_trials(made(ON_ROWS[name]), search), RowTrials)


@given(searches())
@settings(deadline=None, max_examples=12)
def test_parts_are_the_same(search) -> None:
    """With hardly any memory."""
    graph, victim = search[0], made(ON_ROWS["GAT"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_trials, "MOST_CODES", 2 * graph.num_nodes)
        patch.setattr(row_trials, "MOST_ENTRIES", 10)
        checked_trials(victim, search)


def test_layers_are_called_on_the_rows_that_matter_alone(monkeypatch) -> None:
    """On a long path: two ends, their neighbours and the nodes that send to these."""
    nodes = torch.arange(2000)
    path = torch.stack([nodes[:-1], nodes[1:]])
    x = torch.randn((2000, 3), generator=torch.Generator().manual_seed(0))
    trials = made(ON_ROWS["GAT"]).with_flips(x, torch.cat([path, path.flip(0)], 1), nodes)
    rows = []
    linear = torch.nn.functional.linear
    monkeypatch.setattr(
        torch.nn.functional, "linear", lambda h, *given: rows.append(len(h)) or linear(h, *given)
    )
    trials.tried(flip_sets_of([[(3, 900)], [(5, 1000)]]))
    assert rows
    assert max(rows) < 40


def test_a_part_that_mixes_rows_has_none() -> None:
    """Between layers: a norm over all nodes."""
    x = torch.randn((40, 3), generator=torch.Generator().manual_seed(0))
    path = torch.stack([torch.arange(39), torch.arange(1, 40)])
    edges = torch.cat([path, path.flip(0)], 1)
    mixing = made(lambda: pyg.GAT(3, 4, 2, 3, norm="pair_norm"))
    assert mixing.with_flips(x, edges, torch.arange(40)) is None
