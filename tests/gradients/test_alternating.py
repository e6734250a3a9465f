"""Only unchanged modules whose own class declares its layers are alternating."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from alternating import gcn_of, gin_of, victim_of
from torch import Tensor, nn

from grb_check.gradients.alternating import as_alternating
from grb_check.gradients.normalisation import Normalisation
from grb_check.models.reference.gcn import GCN

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


class Declared(nn.Module):
    """A user's class: means over neighbours and the node itself, then a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    @property
    def normalisation(self) -> Normalisation:
        return Normalisation(-0.5, -0.5, 2.0)

    def stages(self) -> list[Callable[[Tensor], Tensor]]:
        return [lambda x: x, self.linear]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.linear(self.normalisation.fixed(edge_index, x.shape[0])(x))


class Inheriting(GCN):
    """A subclass that overrides nothing."""


class Overriding(GCN):
    """A subclass with a forward pass that the inherited `stages` do not describe."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return super().forward(x, edge_index, edge_weight).relu()


class Unrelated(nn.Module):
    """A class that uses the same names for something else."""

    normalisation = "batch"

    def stages(self) -> int:
        return 2

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize("module", [gcn_of(4, (3,)), gin_of(4, (3,)), Declared()])
def test_a_class_that_declares_its_layers_is_alternating(module: nn.Module) -> None:
    """The reference models, and a user's class."""
    assert as_alternating(module) is module


@pytest.mark.parametrize("module", [Inheriting(4, 3), Overriding(4, 3), Unrelated()])
def test_a_class_that_declares_nothing_is_not(module: nn.Module) -> None:
    """A subclass is not, because its forward pass may differ from its parent's."""
    assert as_alternating(module) is None


def test_a_changed_module_is_not() -> None:
    """Neither with a hook nor with a method set on the instance."""
    hooked, patched = gcn_of(4, (3,)), gcn_of(4, (3,))
    hooked.register_forward_hook(lambda *_: None)
    patched.forward = lambda x, edge_index: x  # type: ignore[method-assign,assignment]
    assert as_alternating(hooked) is None
    assert as_alternating(patched) is None


@pytest.mark.parametrize("kind", [Inheriting, Overriding])
def test_the_logits_of_a_subclass_are_its_own(kind: type[GCN]) -> None:
    """Attacks see what the subclass computes, also where GCN has a faster way."""
    torch.manual_seed(0)
    victim = victim_of(kind(4, 3).eval().requires_grad_(False))
    x, new = torch.randn(4, 4), torch.randn(1, 4)
    grown = torch.cat([EDGES, torch.tensor([[4, 0], [0, 4]])], dim=1)
    logits = victim.with_injected(x, grown, 1, torch.arange(4))(new)
    torch.testing.assert_close(logits, victim(torch.cat([x, new]), grown)[:4])


def test_a_declared_class_has_exact_gradients_of_all_pairs() -> None:
    """Those of autograd through the weights of pairs; no trial is needed."""
    torch.manual_seed(0)
    victim = victim_of(Declared().eval().requires_grad_(False))
    x, targets = torch.randn(4, 4), torch.arange(4)
    pairs = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2]])
    gradients = victim.pair_gradients(x, EDGES, targets, lambda logits: logits.square().sum())
    logits_of = victim.with_pairs(x, EDGES, pairs, targets)
    assert gradients is not None
    assert logits_of is not None
    weights = torch.tensor([1.0, 0.0, 0.0, 1.0], requires_grad=True)
    (expected,) = torch.autograd.grad(logits_of(weights).square().sum(), weights)
    torch.testing.assert_close(gradients.at(pairs), expected)
