"""Properties of calls: what an answer may depend on besides the graph, and forms of arguments."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch_geometric.data import Data

from grb_check.conformance.model import (
    BrokenPropertyError,
    CheckedModel,
    Draw,
    NotApplicableError,
    check_same,
    with_edges,
)
from grb_check.errors import ModelError
from grb_check.strategies import graphs
from grb_check.user_code.randomness import isolated_randomness


def no_state(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that the same call gives the same, also after a call on another graph."""
    before = model.expected(graph)
    check_same(model.answer(graph), before, graph, "the same call again")
    model.expected(draw(graphs(features=model.num_features)))
    check_same(model.answer(graph), before, graph, "the same call after one on another graph")


def determinism(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that the global random states do not matter in evaluation mode."""
    expected = model.expected(graph)
    seed = draw(st.integers(1, 2**16))
    check_same(model.answer(graph, seed=seed), expected, graph, f"with seeds {seed} and 0")


def input_unchanged(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that a call changes neither features nor edges."""
    given = Data(x=graph.x.clone(), edge_index=graph.edge_index.clone())
    try:
        model.answer(given)
    except BrokenPropertyError:
        model.expected(graph)  # a graph without an answer is another property's business
        raise
    for name in ("x", "edge_index"):
        if not torch.equal(given[name], graph[name]):
            raise BrokenPropertyError(f"the call changes {name}", graph)


def feature_gradients(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that the gradient in the features exists and is finite."""
    model.expected(graph)
    x = graph.x.clone().requires_grad_()
    try:
        with isolated_randomness(0), torch.enable_grad():
            answer = model.logits(Data(x=x, edge_index=graph.edge_index))
            gradient = (
                torch.autograd.grad(answer.sum(), x, allow_unused=True)[0]
                if answer.requires_grad
                else None
            )
    except (ModelError, RuntimeError) as error:
        raise BrokenPropertyError(f"the gradient in the features raises: {error}", graph) from error
    if gradient is None:
        raise BrokenPropertyError("the features have no gradient", graph)
    if not torch.isfinite(gradient).all():
        node = int((~torch.isfinite(gradient)).any(dim=1).nonzero()[0])
        raise BrokenPropertyError(
            f"the gradient in the features of node {node} is not finite", graph
        )


def memory_layout(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that features and edges may be tensors that are not contiguous."""
    expected = model.expected(graph)
    strided = Data(x=graph.x.T.contiguous().T, edge_index=graph.edge_index.T.contiguous().T)
    check_same(model.answer(strided), expected, graph, "with tensors that are not contiguous")


def int32_edges(model: CheckedModel, graph: Data, draw: Draw) -> str:
    """Check that edges of int32 give the same answer, or an error.

    Returns:
        That they are refused, if they are.
    """
    expected = model.expected(graph)
    try:
        result = model.answer(with_edges(graph, graph.edge_index.int()))
    except BrokenPropertyError:
        return "edges of int32 are refused"
    check_same(result, expected, graph, "with edges of int32")
    return ""


def unit_weights(model: CheckedModel, graph: Data, draw: Draw) -> None:
    """Check that edge weights of 1 are no weights."""
    if not model.victim.takes_edge_weight:
        raise NotApplicableError("it takes no edge weights")
    expected = model.expected(graph)
    ones = torch.ones(int(graph.num_edges), device=model.device)
    result = model.answer(graph, edge_weight=ones)
    check_same(result, expected, graph, "with edge weights of 1")
