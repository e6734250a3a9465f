"""Models that come trained, and their modules in the user's own form."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_graphs import community_dataset
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.datasets.given_edges import given_edges
from grb_check.datasets.graph_dataset import AnyDataset, GraphDataset, graph_dataset
from grb_check.datasets.reading.pyg_graphs import set_of_graphs
from grb_check.errors import ModelError
from grb_check.evaluation.identity import check_identity
from grb_check.evaluation.trained_model import TrainedModel, predict
from grb_check.gradients.victim import Victim
from grb_check.training.building import build_victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention
from grb_check.victims.wrappers import Encoder

DATASET = community_dataset()
EDGES: Tensor = DATASET.graph.edge_index
LOOPS = torch.arange(100).repeat(2, 1)
WHOLE = torch.empty(0, dtype=torch.int64)


class Counts(nn.Module):
    """The class follows from the number of edges that enter a node."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        degree = torch.bincount(edge_index[1], minlength=len(x))
        return nn.functional.one_hot(degree % 3, 3).float()


class ReadsMore(nn.Module):
    """The class is in the features and in another attribute of the data, if it is there."""

    def forward(self, data: Data) -> Tensor:
        known = data.get("place", torch.zeros(len(data.x)).long())
        return data.x[:, :3] + 9 * nn.functional.one_hot(known, 3)


class ReadsType(nn.Module):
    """The class depends on the type of the features."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        shift = 1 if x.dtype == torch.int64 else 0
        return nn.functional.one_hot((x[:, 0].long() + shift) % 3, 3).float()


def given(**more: object) -> Data:
    return Data(x=torch.empty(0), edge_index=EDGES, y=DATASET.graph.y, **more)


def check(module: nn.Module, dataset: AnyDataset) -> None:
    convention = detect_convention(module, "forward", "m")
    batch, given = dataset.graph.get("batch"), dataset.given_edges
    if isinstance(dataset, GraphDataset):
        given = dataset.given_edges_of(dataset.graph)
    adapter = Adapter(module.eval(), "m", convention, batch=batch, given_edges=given)
    victim = Victim(adapter, 3)
    check_identity(TrainedModel(victim, predict(victim, dataset.graph, 0)), dataset, 0)


@pytest.mark.parametrize(
    "edges",
    [
        torch.cat([EDGES, LOOPS], 1),
        EDGES[:, EDGES[0] < EDGES[1]],
        torch.cat([EDGES, EDGES[:, ::2]], 1),
        EDGES.flip(1),
    ],
    ids=["loops", "directions", "duplicates", "order"],
)
def test_edges_as_they_were_given_are_no_change(edges: Tensor) -> None:
    """A model that counts them has the same classes; of other edges it has not."""
    known = given_edges(edges, {}, DATASET.num_nodes)
    user_graph = given()
    user_graph.edge_index = edges
    dataset = replace(DATASET, user_graph=user_graph, given_edges=known)
    check(Counts(), dataset)
    if not known.one_each:
        with pytest.raises(ModelError, match=r"comes trained, .* otherwise"):
            check(Counts(), replace(dataset, given_edges=None))


@pytest.mark.parametrize(
    ("module", "user_graph", "words"),
    [
        (
            ReadsMore(),
            given(place=DATASET.graph.y, other=LOOPS),
            "reads data.place, .* into x, or into the module",
        ),
        (
            ReadsType(),
            Data(x=WHOLE, edge_index=EDGES),
            "x is int64 in the data, and was passed as float32; give it as float32",
        ),
    ],
    ids=["attribute", "type"],
)
def test_what_explains_other_answers_is_named(
    module: nn.Module, user_graph: Data, words: str
) -> None:
    """Each change is undone alone."""
    with pytest.raises(ModelError, match=words):
        check(module, replace(DATASET, user_graph=user_graph))
    check(module, replace(DATASET, user_graph=given()))


def test_a_difference_that_no_change_explains_is_said() -> None:
    """Here one of the order of the edges; a model that draws is asked with the same draws."""

    class Ordered(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            place = torch.arange(edge_index.shape[1]).float()
            last = torch.zeros(len(x)).index_reduce(0, edge_index[1], place, "amax")
            return nn.functional.one_hot(last.long() % 3, 3).float()

    class Draws(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return x[:, :3] + torch.randn(len(x), 3)

    user_graph = given()
    user_graph.edge_index = EDGES.flip(1)
    dataset = replace(DATASET, user_graph=user_graph)
    with pytest.raises(ModelError, match=r"no change .* order of the edges"):
        check(Ordered(), dataset)
    check(Draws(), dataset)


def test_a_model_that_fails_in_the_users_form_is_not_compared() -> None:
    """Nor one on data of no user."""
    double = replace(DATASET, user_graph=Data(x=torch.empty(0).double(), edge_index=EDGES))
    module = nn.Linear(8, 3)
    module.forward = lambda x, edge_index: nn.functional.linear(x, module.weight)  # type: ignore[method-assign]
    check(module, double)
    check(ReadsMore(), DATASET)


@pytest.mark.filterwarnings("ignore::grb_check.victims.checks.ModelWarning")
def test_an_encoder_is_compared_through_its_probe() -> None:
    """Its embeddings are not classes."""
    dataset = replace(DATASET, user_graph=given(place=DATASET.graph.y))
    for module, fails in ((ReadsMore(), True), (Counts(), False)):
        victim = build_victim(
            Encoder(module.eval()), dataset, name="m", seed=0, device=torch.device("cpu")
        )
        model = TrainedModel(victim, predict(victim, dataset.graph, 0))
        if fails:
            with pytest.raises(ModelError, match=r"reads data\.place"):
                check_identity(model, dataset, 0)
        else:
            check_identity(model, dataset, 0)


class CountsOfGraphs(nn.Module):
    """The class of a graph follows from the number of its edges, and from `place` if it is read."""

    def __init__(self, *, reads: bool = False) -> None:
        super().__init__()
        self.reads = reads

    def forward(self, data: Data) -> Tensor:
        edges = torch.bincount(data.batch[data.edge_index[0]], minlength=int(data.batch[-1]) + 1)
        more = data.get("place", torch.zeros(len(edges)).long()) if self.reads else 0
        return nn.functional.one_hot((edges + more) % 3, 3).float()


def test_sets_of_graphs_are_compared_in_the_users_form() -> None:
    """Directed edges and self-loops are no change; what a forward reads besides is named."""
    graphs = []
    for index in range(30):
        size = 4 + index % 3
        nodes = torch.arange(size)
        ring = torch.stack([nodes, (nodes + 1) % size])
        edges = torch.cat([ring, torch.tensor([[0], [0]])], 1) if index % 2 else ring
        graphs.append(
            Data(x=torch.ones(size, 2), edge_index=edges, y=index % 2, place=torch.tensor([index]))
        )
    dataset = graph_dataset(set_of_graphs(graphs, name="rings", origin="a test", where="here"))
    assert dataset.given_edges is not None
    check(CountsOfGraphs(), dataset)
    with pytest.raises(ModelError, match=r"of the graphs otherwise .* reads data.place"):
        check(CountsOfGraphs(reads=True), dataset)
    with pytest.raises(ModelError, match="no change that is undone"):
        check(CountsOfGraphs(), replace(dataset, given_edges=None))
