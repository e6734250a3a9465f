"""Shares of targets: no gradient, a wrong one, or links that are cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from strategies import LinearModel, UnweightedModel, graph_of
from torch import Tensor

from grb_check.attacks.threat import Perturbation, apply
from grb_check.errors import GradientError
from grb_check.evaluation.gradient_checks import (
    SAMPLE,
    Kind,
    cut_off,
    missing_gradients,
    sampled_margins,
    wrong_gradients,
)

NODES = 80
GRAPH = graph_of(
    NODES + 1,
    [(node, (node + 1) % NODES) if node + 1 < NODES else (0, node) for node in range(NODES)],
    x=torch.randn(NODES + 1, 3, generator=torch.Generator().manual_seed(0)),
    y=torch.arange(NODES + 1) % 2,
)
ALL = torch.arange(NODES + 1)


def missing(*given: Any) -> tuple[float | None, str]:
    """Of the margins of a model, a graph, targets, and a kind."""
    return missing_gradients(sampled_margins(*given))


def wrong_of(*given: Any) -> float:
    return wrong_gradients(sampled_margins(*given))


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
    assert missing(Partly(0), GRAPH, ALL, kind)[0] == 0
    assert missing(Partly(NODES), GRAPH, ALL, kind)[0] == 1
    some = torch.arange(10, 30)
    assert missing(Partly(15), GRAPH, some, kind)[0] == 0.25
    assert missing(Partly(0), GRAPH, torch.tensor([NODES]), kind)[0] is None


def test_a_model_that_takes_no_weights_has_no_gradient_of_edges() -> None:
    """It has a gradient of features."""
    model = UnweightedModel(3, 2)
    assert missing(model, GRAPH, ALL, "edges")[0] == 1
    assert missing(model, GRAPH, ALL, "features")[0] == 0


def test_a_model_that_refuses_to_be_differentiated_has_none() -> None:
    """As a victim does if its forward detaches."""

    class Refusing(LinearModel):
        def __call__(self, *given: object) -> Tensor:
            raise GradientError("no gradient")

    assert missing(Refusing(3, 2), GRAPH, ALL, "features") == (
        1,
        "no gradient",
    )


def test_targets_that_notice_nothing_are_not_asked_for_a_gradient() -> None:
    """Those whose links to injected nodes are removed are cut off, which is another finding."""

    class Blind(LinearModel):
        def __call__(self, x: Tensor, *given: Tensor) -> Tensor:
            return super().__call__(x[: NODES + 1], GRAPH.edge_index)

    class Hidden(LinearModel):
        def __call__(self, x: Tensor, *given: Tensor) -> Tensor:
            return super().__call__(x.detach(), *given)

    linked = torch.tensor([[0, 0], [2, 12]])
    attacked = apply(GRAPH, Perturbation(injected_x=torch.ones((1, 3)), injected_edges=linked))
    injected = torch.tensor([NODES + 1])
    assert missing(Blind(3, 2), attacked, ALL, "features", injected) == (None, "")
    assert missing(Hidden(3, 2), attacked, ALL, "features", injected) == (1, "")
    assert missing(LinearModel(3, 2), attacked, ALL, "features", injected) == (0, "")


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

    share, message = missing(Odd(3, 2), GRAPH, ALL, "features")
    assert share == 1
    assert error in message
    assert bool(message) == bool(error)


def test_few_targets_are_looked_at_and_always_the_same() -> None:
    """With many targets, the sample has its fixed size."""
    queried: list[Tensor] = []

    class Watched(LinearModel):
        def with_pairs(self, x: Tensor, edges: Tensor, pairs: Tensor, targets: Tensor) -> None:
            queried.append(targets)

    for _ in range(2):
        missing(Watched(3, 2), GRAPH, ALL, "edges")
    assert queried[0].numel() == SAMPLE
    assert torch.equal(*queried)


class Changed(LinearModel):
    """Passes its logits through a function, of features as of edges."""

    def __init__(self, then: Callable[[Tensor], Tensor]) -> None:
        super().__init__(3, 2)
        self._then = then

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        logits = super().on_topology(edge_index, num_nodes)
        return lambda x: self._then(logits(x))

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        logits = super().with_pairs(x, edge_index, pairs, targets)
        return lambda weights: self._then(logits(weights))


def of_another_function(logits: Tensor) -> Tensor:
    """The logits, with the gradient of their negative."""
    return 2 * logits.detach() - logits


def straight_through(logits: Tensor) -> Tensor:
    """Rounded logits, with the gradient of those that are not."""
    return (logits.round() - logits).detach() + logits


@pytest.mark.parametrize("kind", ["features", "edges"])
@pytest.mark.parametrize(
    ("then", "wrong"),
    [
        (torch.relu, 0.0),
        (torch.log_softmax, 0.0),
        (Tensor.round, 0.0),
        (of_another_function, 1.0),
        (straight_through, 1.0),
    ],
)
def test_a_gradient_is_wrong_if_margins_change_otherwise(
    kind: Kind, then: Callable[..., Tensor], wrong: float
) -> None:
    """Without a gradient nothing is predicted."""
    model = Changed((lambda z: z.log_softmax(1)) if then is torch.log_softmax else then)
    assert wrong_of(model, GRAPH, ALL, kind) == pytest.approx(wrong, abs=0.1)


def test_a_curve_is_no_wrong_gradient() -> None:
    """Long steps meet the curve, and what short ones change may be rounding."""
    at = Changed(lambda z: z).on_topology(GRAPH.edge_index, GRAPH.num_nodes)(GRAPH.x).detach()
    model = Changed(lambda z: 30 * at + 0.05 * (z - at) + 5 * (z - at) ** 2)
    assert wrong_of(model, GRAPH, ALL, "features") == 0


def test_nothing_is_wrong_without_targets_or_weights_of_edges() -> None:
    assert wrong_of(LinearModel(3, 2), GRAPH, ALL[:0], "features") == 0
    assert wrong_of(UnweightedModel(3, 2), GRAPH, ALL, "edges") == 0


def test_targets_are_cut_off_that_keep_their_logits() -> None:
    """Of those that an injected node is linked to."""

    class Deaf(LinearModel):
        """Removes all links to nodes from 81 on but those of nodes below `hearing`."""

        def __init__(self, hearing: int) -> None:
            super().__init__(3, 2)
            self.hearing = hearing

        def __call__(
            self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
        ) -> Tensor:
            outer = (edge_index > NODES).any(dim=0)
            return super().__call__(x, edge_index[:, ~outer | (edge_index < self.hearing).any(0)])

    linked = torch.tensor([[0, 0, 0, 0], [2, 12, 22, 32]])
    injected = Perturbation(injected_x=torch.ones((1, 3)), injected_edges=linked)
    assert cut_off(Deaf(0), GRAPH, [injected], ALL) == [1]
    assert cut_off(Deaf(20), GRAPH, [injected], ALL) == [0.5]
    assert cut_off(Deaf(99), GRAPH, [injected], ALL) == [0]
    assert cut_off(Deaf(0), GRAPH, [injected], torch.tensor([3])) == [0]
    assert cut_off(Deaf(20), GRAPH, [injected], torch.tensor([2, 3, 32])) == [0.5]
