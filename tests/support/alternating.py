"""Alternating models with parameters as after some training."""

from __future__ import annotations

import torch
from torch import nn

from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN
from grb_check.models.reference.gin import GIN
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention

DEPTHS = ((3,), (8, 4), (2, 9, 5))


def gcn_of(
    width: int, hidden: tuple[int, ...], *, layer_norm: bool = False, num_classes: int = 3
) -> GCN:
    """Frozen, with biases and scales that are neither 0 nor 1, from the global generator."""
    model = GCN(width, num_classes, hidden, layer_norm=layer_norm).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(torch.randn_like(parameter) / 2)
    return model


def gin_of(width: int, hidden: tuple[int, ...], *, eps: float = 0.0, num_classes: int = 3) -> GIN:
    """Frozen, with running means and variances that are neither 0 nor 1."""
    model = GIN(width, num_classes, hidden, eps=eps).eval().requires_grad_(False)
    for norm in model.norms:
        assert isinstance(norm, nn.BatchNorm1d)
        norm.running_mean = torch.randn(norm.num_features) / 2
        norm.running_var = torch.rand(norm.num_features) + 0.5
    return model


def victim_of(module: nn.Module, num_classes: int = 3) -> Victim:
    """The module as a victim."""
    convention = detect_convention(module, "forward", "model")
    return Victim(Adapter(module, "model", convention), num_classes)
