"""Features of a graph that grows: linear layers are asked once for the rows that stay.

Many models begin with a linear layer on the features of all nodes (APPNP, GPR-GNN). Of two calls
that differ in injected rows it gives the same for all others, and in these there is no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric.nn.dense import Linear

from grb_check.gradients.layer_calls import replaced_forwards

FORWARDS: Final = (nn.Linear.forward, Linear.forward)  # a row of each row, by weights alone


@dataclass(frozen=True, eq=False)
class GrownRows:
    """Features that stay, and what the linear layers of a module make of them.

    Attributes:
        x: float [N, d].
        layers: linear, in evaluation mode.
        known: float [N, b] of each layer that was given `x`, with its parameters and their versions
            then.
    """

    x: Tensor
    layers: Sequence[nn.Module]
    known: dict[nn.Module, tuple[Sequence[tuple[Tensor, int]], Tensor]] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, module: nn.Module, x: Tensor) -> GrownRows:
        """Return features float [N, d] for calls of a module."""
        return cls(x, [part for part in module.modules() if _is_linear(part)])

    @contextmanager
    def with_rows(self, injected: Tensor) -> Iterator[Tensor]:
        """Give the features float [N + n, d] to call the module with, injected ones [n, d] last."""
        rows = torch.cat([self.x, injected])
        version = rows._version

        def forward(layer: nn.Module, *given: Any, **named: Any) -> Tensor:
            original: Callable[..., Tensor] = type(layer).forward
            same = len(given) == 1 and given[0] is rows and rows._version == version
            if named or not same:
                return original(layer, *given, **named)
            return torch.cat([self._of_layer(layer, original), original(layer, injected)])

        with replaced_forwards({layer: partial(forward, layer) for layer in self.layers}):
            yield rows

    def _of_layer(self, layer: nn.Module, original: Callable[..., Tensor]) -> Tensor:
        now = [(parameter, parameter._version) for parameter in layer.parameters()]
        before, result = self.known.get(layer, ((), self.x))
        same = len(now) == len(before) and all(
            parameter is other and version == of_other
            for (parameter, version), (other, of_other) in zip(now, before, strict=True)
        )
        if not same:
            with torch.no_grad():
                result = original(layer, self.x)
            self.known[layer] = now, result
        return result


def _is_linear(part: nn.Module) -> bool:
    """Whether a part is a linear layer with weights of its own: not normalised or generated."""
    # Classes of scripted modules have no `forward` to be looked at.
    known = getattr(type(part), "forward", None) in FORWARDS and "forward" not in vars(part)
    return known and {"weight", "bias"} <= part._parameters.keys()
