"""The list of what lies between data and model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset
from torch import nn
from torch_geometric.data import Data

from grb_check.datasets.given_edges import edges_of_type, given_edges
from grb_check.evaluation.changes import changes_of, edges_of_attacks
from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention, parse_convention

DATASET = community_dataset()
EDGES = torch.tensor([[0, 0, 1, 2, 3, 3], [1, 1, 2, 3, 2, 3]])


class OfEdges(nn.Module):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return x


def victim_of(convention: str = "x, edge_index", **more: object) -> Victim:
    adapter = Adapter(OfEdges(), "m", parse_convention(convention), **more)  # type: ignore[arg-type]
    return Victim(adapter, 3)


def test_nothing_is_said_where_nothing_is_changed() -> None:
    """Of the data's own float32 features, as given, and its pairs of nodes."""
    assert changes_of(DATASET, [], victim_of()) == ()


def test_edges_that_are_no_pairs_are_described_to_the_last() -> None:
    """Each kind with its number, and the attributes of new ones."""
    given = given_edges(EDGES, {}, 4)
    assert given.numbers == (1, 1 + 1, 1)
    attributes = {"edge_weight": torch.arange(6) + 0.5, "edge_type": torch.zeros(6).long()}
    text = edges_of_attacks(given_edges(EDGES, attributes, 4))  # type: ignore[arg-type]
    for words in (
        "1 self-loop,",
        "2 one-way edges",
        "1 parallel edge",
        "edge_weight 3",
        "edge_type the commonest",
    ):
        assert words in text
    assert edges_of_attacks(None) == ""


@pytest.mark.parametrize(
    ("change", "victim", "words"),
    [
        ({"features": "rows"}, victim_of(), "divided by their sum"),
        ({"given_dtype": "float64"}, victim_of(), "cast from float64 to float32"),
        ({"given_dtype": "int32"}, victim_of(x_dtype=torch.int64), "from int32 to int64"),
        ({"given_dtype": "int64"}, victim_of(x_dtype=torch.float32), "from int64 to float32"),
        ({"user_graph": Data(pos=EDGES)}, victim_of(), "not passed to models: pos"),
        (
            {"user_graph": Data(edge_index=EDGES.int())},
            victim_of(),
            "edge_index cast from int32 to int64",
        ),
        (
            {"given_edges": given_edges(EDGES, {"edge_attr": torch.ones(6, 2)}, 4)},
            victim_of(),
            "edge_attr, which the model does not take",
        ),
        ({}, replace(victim_of(), probabilities=True), "the logarithm"),
        ({}, victim_of(single="logit"), "two classes"),
    ],
    ids=[
        "features",
        "double",
        "int32",
        "floats",
        "others",
        "int32-edges",
        "ignored",
        "log",
        "single",
    ],
)
def test_each_change_is_in_the_list(change: dict[str, object], victim: Victim, words: str) -> None:
    """One entry for each, beside what the reader said."""
    dataset = replace(DATASET, **change)  # type: ignore[arg-type]
    first, *rest = changes_of(dataset, ["3 self-loops dropped"], victim)
    assert first == "3 self-loops dropped"
    assert words in rest[-1]


def test_edges_of_several_types_name_the_way_to_one() -> None:
    """A type that there is; not where attacks change one already."""
    types = {"edge_type": torch.tensor([3, 3, 4, 4, 4, 4])}
    victim = victim_of("x, edge_index, edge_type")
    (text,) = changes_of(replace(DATASET, given_edges=given_edges(EDGES, types, 4)), [], victim)
    assert "#type4 behind the dataset" in text
    one = replace(DATASET, given_edges=edges_of_type(EDGES, types, 4, 3))
    (text,) = changes_of(one, [], victim)
    assert "#type" not in text
    assert "4 other edges, which no attack touches" in text


def test_integers_as_they_are_given_are_no_change() -> None:
    """Nor is a model that takes the attributes of edges."""
    integers = replace(DATASET, given_dtype="int64")
    assert changes_of(integers, [], victim_of(x_dtype=torch.int64)) == ()
    convention = detect_convention(nn.Identity(), "forward", "m")
    assert not convention.takes("edge_attr")
    assert parse_convention("x, edge_index, edge_attr").takes("edge_attr")
    assert parse_convention("x, adj").takes("edge_weight")
    assert parse_convention("data").takes("edge_type")
