"""The share of targets without a usable gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from strategies import LinearModel, UnweightedModel, graph_of
from torch import Tensor

from grb_check.errors import GradientError
from grb_check.evaluation.white_box import SAMPLE, Kind, missing_gradients

NODES = 80
GRAPH = graph_of(
    NODES + 1,
    [(node, (node + 1) % NODES) if node + 1 < NODES else (0, node) for node in range(NODES)],
    x=torch.randn(NODES + 1, 3, generator=torch.Generator().manual_seed(0)),
    y=torch.arange(NODES + 1) % 2,
)
ALL = torch.arange(NODES + 1)


class Partly(LinearModel):
    """Gives a constant output for nodes below `constant`."""

    def __init__(self, constant: int) -> None:
        super().__init__(3, 2)
        self._constant = constant

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        logits = super().__call__(x, edge_index, edge_weight)
        return logits * (torch.arange(x.shape[0]) >= self._constant)[:, None]

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        logits = super().with_pairs(x, edge_index, pairs, targets)
        return lambda weights: logits(weights) * (targets >= self._constant)[:, None]


@pytest.mark.parametrize("kind", ["features", "edges"])
def test_the_share_is_that_of_the_targets_without_a_gradient(kind: Kind) -> None:
    """None, some and all targets; the isolated node is not sampled."""
    assert missing_gradients(Partly(0), GRAPH, ALL, kind)[0] == 0
    assert missing_gradients(Partly(NODES), GRAPH, ALL, kind)[0] == 1
    some = torch.arange(10, 30)
    assert missing_gradients(Partly(15), GRAPH, some, kind)[0] == 0.25
    assert missing_gradients(Partly(0), GRAPH, torch.tensor([NODES]), kind)[0] is None


def test_a_model_that_takes_no_weights_has_no_gradient_of_edges() -> None:
    """It has a gradient of features."""
    model = UnweightedModel(3, 2)
    assert missing_gradients(model, GRAPH, ALL, "edges")[0] == 1
    assert missing_gradients(model, GRAPH, ALL, "features")[0] == 0


def test_a_model_that_refuses_to_be_differentiated_has_none() -> None:
    """As a victim does if its forward detaches."""

    class Refusing(LinearModel):
        def __call__(self, *given: object) -> Tensor:
            raise GradientError("no gradient")

    assert missing_gradients(Refusing(3, 2), GRAPH, ALL, "features") == (1, "no gradient")


class Backward(torch.autograd.Function):
    """The identity, with `then` applied to the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, then: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.then = then
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return ctx.then(gradient), None


def not_a_number(gradient: Tensor) -> Tensor:
    return gradient.index_fill(0, torch.tensor([0]), float("nan"))


def failing(gradient: Tensor) -> Tensor:
    raise NotImplementedError("derivative for that is not implemented")


@pytest.mark.parametrize(("then", "error"), [(not_a_number, ""), (failing, "derivative for that")])
def test_a_gradient_that_is_not_finite_or_fails_is_none(
    then: Callable[[Tensor], Tensor], error: str
) -> None:
    """No attack could follow such a gradient; the error is told."""

    class Odd(LinearModel):
        def __call__(
            self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
        ) -> Tensor:
            return super().__call__(Backward.apply(x, then), edge_index, edge_weight)

    share, told = missing_gradients(Odd(3, 2), GRAPH, ALL, "features")
    assert share == 1
    assert error in told
    assert bool(told) == bool(error)


def test_few_targets_are_looked_at_and_always_the_same() -> None:
    """With many targets, the sample has its fixed size."""
    asked: list[Tensor] = []

    class Watched(LinearModel):
        def with_pairs(self, x: Tensor, edges: Tensor, pairs: Tensor, targets: Tensor) -> None:
            asked.append(targets)

    for _ in range(2):
        missing_gradients(Watched(3, 2), GRAPH, ALL, "edges")
    assert asked[0].numel() == SAMPLE
    assert torch.equal(*asked)
