r"""Modules whose whole propagation is one linear map of columns: APPNP, GPR-GNN and their kind.

They apply maps row by row, then a part P of any number of hops, then maps row by row again. Where P
treats every column alike, with H the rows that it is given,

.. math:: P(H)_T = P(H_0)_T + L_{T, I} (H_I - (H_0)_I),

for injected nodes I and targets T. The columns of L are what P makes of one-hot columns, computed
once for each topology; from there on no edge is needed. Whether P is such a map only a trial can
say, as in `injected_rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from grb_check.gradients.layer_calls import (
    LayerCall,
    OnRows,
    PartCall,
    Replay,
    keeping_state,
    layers_of,
    recorded_call,
)
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter

COLUMNS: Final = 64  # of one-hot columns, each of which is propagated like one of the features
MOST_ENTRIES: Final = 20_000_000  # of L, 80 MB


@dataclass(frozen=True, eq=False)
class LinearRows:
    """A module as a map of injected rows.

    Attributes:
        logits: from features [n, d] of injected nodes to the output [t, c] at targets.
        clean: float [t, c], the module's own output for features of 0.
    """

    logits: OnRows
    clean: Tensor


def linear_rows(
    adapter: Adapter, replay: Replay, start: Tensor, injected: Tensor, targets: Tensor
) -> LinearRows | None:
    """Return a module as a map of injected rows.

    Args:
        adapter: of a module in evaluation mode.
        replay: calls it on features float [M, d].
        start: float [M, d], features, 0 for injected nodes.
        injected: int64 [n].
        targets: int64 [t].

    Returns:
        None if no part of the module holds all its layers, if that is not called once, or cannot be
        such a map. The map is right if the part is one, which nothing here ensures.
    """
    if injected.numel() * targets.numel() > MOST_ENTRIES:
        return None
    with torch.no_grad(), isolated_randomness(0):
        part = _propagation(adapter.module, lambda: replay.forward(start))
        if part is None or part.call.x.shape[0] != start.shape[0]:  # such as of pooled nodes
            return None
        with adapter.within():
            response = _response(part.call, injected, targets)
    if response is None:
        return None
    constant, before = part.output[targets], part.call.x[injected]

    def propagated(h: Tensor) -> Tensor:
        return constant + response @ (h - before)

    return LinearRows(
        lambda features: replay([part.call], [propagated], features),
        part.clean[targets],
    )


def _propagation(module: nn.Module, forward: Callable[[], Tensor]) -> PartCall | None:
    """The call of the smallest part of a module that holds all layers of PyG.

    None unless it is called once, and returns features of the shape that it is given.
    """
    layers = set(layers_of(module))
    holding = [part for part in module.modules() if layers and layers <= set(layers_of(part))]
    for part in reversed(holding[1:]):  # the first is the module
        recorded = recorded_call(part, forward)
        if recorded is not None and recorded.output.shape == recorded.call.x.shape:
            return recorded
    return None


def _response(call: LayerCall, injected: Tensor, targets: Tensor) -> Tensor | None:
    """L float [t, n]; None if the part does not take as many columns as it is given."""
    blocks = []
    called = keeping_state(call.layer, call.repeated)
    for some in torch.split(injected, COLUMNS):
        one_hot = call.x.new_zeros((call.x.shape[0], some.numel()))
        one_hot[some, torch.arange(some.numel(), device=some.device)] = 1.0
        try:
            block = called(one_hot)
        except Exception:  # whatever a user's module raises for other columns than its own
            return None
        if block.shape != one_hot.shape:
            return None
        blocks.append(block[targets])
    return torch.cat(blocks, dim=1)
