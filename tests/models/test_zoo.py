"""All reference models: names, published sizes, odd graphs, gradients, weights of edges."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable
from importlib import resources

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check import SelfTrained, UsageError, models
from grb_check.models.reference.gat import GAT
from grb_check.models.reference.sage import GraphSAGE
from grb_check.models.reference.sgcn import SGCN
from grb_check.models.zoo import EVERY, ZOO, entry

PUBLISHED = json.loads(
    resources.files("grb_check").joinpath("models/paper_figures/models.json").read_text("utf-8")
)["datasets"]
FACTORIES = [name for name in ZOO if not name.endswith("_at")]  # the others train these


def built(name: str, dataset: str = "", size: tuple[int, int] | None = None) -> nn.Module:
    """The module of a factory, for (features, classes), by default those of the dataset."""
    row = PUBLISHED.get(dataset, PUBLISHED["grb-cora"])
    model = getattr(models, name)(*(size or (row["num_features"], row["num_classes"])), dataset)
    module = model.module if isinstance(model, SelfTrained) else model
    assert isinstance(module, nn.Module)
    return module


PRINTED = [name for name in FACTORIES if ZOO[name].title in PUBLISHED["grb-cora"]]
FACTORY = ["num_features", "num_classes", "dataset"]  # its parameters

# Every factory, and variants that no factory makes, for (features, classes).
KINDS: dict[str, Callable[[int, int], nn.Module]] = {
    **{name: lambda d, c, name=name: built(name, size=(d, c)) for name in FACTORIES},
    "GAT, one output head": lambda d, c: GAT(d, c, (4, 3), num_heads=2, output_heads=1),
    "SAGE, mean": lambda d, c: GraphSAGE(d, c, (4, 3), pool=False),
    "SGC": lambda d, c: SGCN(d, c, (), k=2),
}
WEIGHTED = [
    kind
    for kind, make in KINDS.items()
    if "edge_weight" in inspect.signature(make(3, 2).forward).parameters
]


def test_every_factory_has_a_row() -> None:
    """Every function of (num_features, num_classes, dataset) below `grb_check.models`."""
    names = set()
    for module in pkgutil.walk_packages(models.__path__, "grb_check.models."):
        functions = inspect.getmembers(importlib.import_module(module.name), inspect.isfunction)
        names |= {
            name
            for name, function in functions
            if function.__module__ == module.name
            and [*inspect.signature(function).parameters] == FACTORY
        }
    assert names == {row.name for row in EVERY} == {*dir(models)}


def test_an_unknown_model_is_an_error_with_the_nearest() -> None:
    """The message also lists all models."""
    with pytest.raises(UsageError, match=r"unknown reference model 'gatln'.*mean 'gat_ln'.*sgcn"):
        entry("gatln")


def left_out(title: str, row: dict) -> int:
    """Parameters that GRB counts and our model lacks, see the docstrings of the modules."""
    sizes = row[title]["hidden_sizes"]
    if title.startswith("GIN"):
        return len(sizes)  # eps
    if title.startswith("SAGE"):
        return sum(sizes) + row["num_classes"]  # a second bias
    return 0


@pytest.mark.parametrize("dataset", PUBLISHED)
@pytest.mark.parametrize("name", PRINTED)
def test_has_the_published_number_of_parameters(name: str, dataset: str) -> None:
    """GRB, Tables 6 to 10; that of grb-cora for models that a table lacks."""
    title = ZOO[name].title
    home = dataset if title in PUBLISHED[dataset] else "grb-cora"
    row = PUBLISHED[home]
    model = getattr(models, name)(row["num_features"], row["num_classes"], dataset)
    module = model.module if isinstance(model, SelfTrained) else model
    count = sum(p.numel() for p in module.parameters())
    assert count + left_out(title, row) == row[title]["parameters"]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=12)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_any_graph_has_finite_logits_and_gradients(kind: str, graph: Data, seed: int) -> None:
    """Including a single node, isolated nodes and no edges; every call gives the same."""
    torch.manual_seed(seed)
    model = KINDS[kind](graph.num_features, 3).eval()
    x = graph.x.clone().requires_grad_()
    logits = model(x, graph.edge_index)
    assert logits.shape == (graph.num_nodes, 3)
    assert torch.equal(logits, model(x, graph.edge_index))
    inputs = [x, *model.parameters()]
    gradients = torch.autograd.grad(logits.square().sum(), inputs, allow_unused=True)
    assert all(torch.isfinite(g).all() for g in (logits, *gradients) if g is not None)
    on_topology = getattr(model, "on_topology", None)
    if on_topology is not None:
        prepared = on_topology(graph.edge_index, graph.num_nodes)
        torch.testing.assert_close(prepared(graph.x), logits.detach())


# The guards' gate uses the sigmoid's gradient in place of that of a step.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "guard" not in kind])
def test_gradients_of_features_are_right(kind: str) -> None:
    """Against finite differences in float64."""
    torch.manual_seed(1)
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    model = KINDS[kind](3, 2).double().eval()
    x = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h: model(h, edge_index), (x,))


@pytest.mark.parametrize("kind", WEIGHTED)
@settings(deadline=None, max_examples=12)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_a_weight_of_zero_removes_an_edge(kind: str, graph: Data, seed: int) -> None:
    """A weight of 1 keeps it."""
    torch.manual_seed(seed)
    model = KINDS[kind](graph.num_features, 2).eval()
    source, target = graph.edge_index
    retained = (source * target + source + target + seed) % 3 > 0  # both directions alike
    weighted = model(graph.x, graph.edge_index, retained.float())
    without = model(graph.x, graph.edge_index[:, retained])
    torch.testing.assert_close(weighted, without, rtol=1e-4, atol=1e-4)


def test_an_sgcn_needs_a_place_for_its_convolutions() -> None:
    """With one hidden size there would be none."""
    with pytest.raises(UsageError, match="at least two"):
        SGCN(3, 2, (4,))


def test_without_hidden_sizes_an_sgcn_is_the_papers() -> None:
    """Linear in the features: A^^2 X W + b."""
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    model = SGCN(3, 2, (), k=2).eval()
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    zero = model(torch.zeros(3, 3), edge_index)
    both = model(x + y, edge_index)
    torch.testing.assert_close(both, model(x, edge_index) + model(y, edge_index) - zero)


def test_sage_pools_its_neighbours() -> None:
    """Hamilton et al. 2017, equation 3, with rows of length 1, computed node by node."""
    torch.manual_seed(0)
    edge_index = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])
    model = GraphSAGE(3, 2, ()).eval()
    (layer,) = model.layers
    x = torch.randn(4, 3)
    unit = x / x.norm(dim=1, keepdim=True)
    pooled = torch.relu(layer.lin(unit))
    around = {0: [1, 2], 1: [0], 2: [0], 3: []}
    expected: list[Tensor] = []
    for node, others in around.items():
        mean = pooled[others].mean(dim=0) if others else torch.zeros(3)
        expected.append(layer.lin_r(unit[node]) + layer.lin_l(mean))
    torch.testing.assert_close(model(x, edge_index), torch.stack(expected))
