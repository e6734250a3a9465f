"""Modules of several types, of DGL and of samplers."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from grb_check.errors import ModelError
from grb_check.victims.conventions import detect_convention


class Types(nn.Module):
    def forward(self, x_dict: Any, edge_label_index_dict: Any) -> Any: ...


class OfDgl(nn.Module):
    def forward(self, g: Any, features: Any) -> Any:
        with g.local_scope():
            return g.ndata


class Blocks(nn.Module):
    def forward(self, blocks: Any, x: Any) -> Any: ...


class Sampled(nn.Module):
    def forward(self, x: Any, adjs: Any) -> Any: ...


class Sound(nn.Module):
    """Names its edges `g`, and is no module of DGL."""

    def forward(self, features: Any, g: Any) -> Any: ...


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Types(), "graphs of several types"),
        (OfDgl(), "a graph of DGL"),
        (Blocks(), "a graph of DGL"),
        (Sampled(), "the mini-batches of a sampler"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_they_are_refused_with_what_to_return(module: nn.Module, words: str) -> None:
    """Before any call."""
    with pytest.raises(ModelError, match=rf"{words}.*return a module whose forward takes"):
        detect_convention(module, "forward", "m")


def test_a_name_alone_does_not_make_a_module_foreign() -> None:
    """Roles still follow from the order of parameters."""
    assert str(detect_convention(Sound(), "forward", "m")) == "(x, edge_index)"
