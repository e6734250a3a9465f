"""Checkpointed modules have the gradients of the same modules without checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointFunction, checkpoint
from torch_geometric.nn import GCNConv
from torch_geometric.nn.models import GroupAddRev
from torch_geometric.nn.models.rev_gnn import InvertibleFunction

from grb_check.gradients.victim import Victim
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN
from grb_check.victims.plain_calls import plain_calls

GENERATOR = torch.utils.checkpoint._checkpoint_without_reentrant_generator
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
X = torch.randn((4, 3), generator=torch.Generator().manual_seed(0))


class Checkpointed(nn.Module):
    """Recomputes its first layer unless `reentrant` is None, and counts the calls."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = GCNConv(3, 8), GCNConv(8, 2)
        self.reentrant, self.calls = reentrant, 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        def first(h: Tensor) -> Tensor:
            self.calls += 1
            return self.first(h, edge_index).relu()

        plain = self.reentrant is None
        h = first(x) if plain else checkpoint(first, x, use_reentrant=self.reentrant)
        return self.last(h, edge_index)


def victim(reentrant: bool | None) -> Victim:
    module = Checkpointed(reentrant).eval().requires_grad_(False)
    return Victim(Adapter(module, "model", PLAIN), 2)


def by_features(model: Victim) -> Tensor:
    x = X.clone().requires_grad_()
    return torch.autograd.grad(model(x, EDGES).sum(), x)[0]


def by_pairs(model: Victim) -> Tensor:
    pairs = torch.tensor([[0, 0, 1], [1, 3, 2]])
    logits_of = model.with_pairs(X, EDGES, pairs, torch.arange(4))
    assert logits_of is not None
    weights = torch.tensor([1.0, 0.0, 1.0], requires_grad=True)
    return torch.autograd.grad(logits_of(weights)[:, 0].sum(), weights)[0]


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("gradient", [by_features, by_pairs])
def test_gradients_are_those_of_the_same_model_that_keeps_all(gradient, reentrant: bool) -> None:
    torch.testing.assert_close(gradient(victim(reentrant)), gradient(victim(None)))


@pytest.mark.parametrize("reentrant", [True, False])
def test_in_training_the_memory_is_saved(reentrant: bool) -> None:
    """The first layer is computed again."""
    module = Checkpointed(reentrant).train()
    x = X.clone().requires_grad_()
    Adapter(module, "model", PLAIN)(x, EDGES).sum().backward()
    assert module.calls == 2
    assert x.grad is not None


class Reversible(nn.Module):
    """Two groups of columns, of which each changes by the other; frees what it is given."""

    def __init__(self, *, disable: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = GCNConv(3, 8), GCNConv(8, 2)
        self.block = GroupAddRev(GCNConv(4, 4), num_groups=2, disable=disable)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.block(self.first(x, edge_index), edge_index)
        return self.last(h, edge_index)


def reversible(*, disable: bool) -> Victim:
    module = Reversible(disable=disable).eval().requires_grad_(False)
    return Victim(Adapter(module, "model", PLAIN), 2)


@pytest.mark.parametrize("gradient", [by_features, by_pairs])
def test_reversible_modules_have_the_gradients_of_those_that_keep_all(gradient) -> None:
    expected = gradient(reversible(disable=True))
    assert expected.any()
    torch.testing.assert_close(gradient(reversible(disable=False)), expected)


class Doubled(CheckpointFunction):
    """Another function, which takes other arguments."""

    @staticmethod
    def forward(ctx: Any, factor: float, x: Tensor) -> Tensor:  # type: ignore[override]
        return factor * x


def test_calls_that_overlap_leave_everything_as_it_was() -> None:
    """As those of two threads do, in any order; other functions stay as they are."""

    def is_plain() -> bool:
        assert ("apply" in vars(CheckpointFunction)) == ("apply" in vars(InvertibleFunction))
        return "apply" in vars(CheckpointFunction)

    first, second = plain_calls(training=False), plain_calls(training=False)
    first.__enter__()
    second.__enter__()
    assert torch.equal(Doubled.apply(2.0, X), 2 * X)
    first.__exit__(None, None, None)
    assert is_plain()
    second.__exit__(None, None, None)
    assert not is_plain()
    assert torch.utils.checkpoint._checkpoint_without_reentrant_generator is GENERATOR
