"""An encoder with a linear layer on its embeddings, as one model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

from torch import Tensor, nn

from grb_check.datasets.given_edges import GivenEdges
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import detect_convention


class Probed(nn.Module):
    """An encoder and the linear layer fitted to its embeddings: logits from features and edges.

    Args:
        encoder: returns embeddings float [num_nodes, size].
        weight: float [num_classes, size].
        bias: float [num_classes].
    """

    def __init__(self, encoder: Adapter, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.encoder = encoder.module
        self.linear = nn.Linear(weight.shape[1], weight.shape[0])
        self.linear.weight = nn.Parameter(weight)
        self.linear.bias = nn.Parameter(bias)
        self._encode = encoder

    @property
    def adapter(self) -> Adapter:
        """The encoder; `linear` is applied to its output."""
        return self._encode

    @property
    def supports_edge_weight(self) -> bool:
        """Whether the encoder takes weights of edges as an argument."""
        return self._encode.convention.takes_edge_weight

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return logits float [num_nodes, num_classes]; one row a graph if `batch` is given."""
        encode = replace(self._encode, batch=batch)
        logits: Tensor = self.linear(encode(x, edge_index, edge_weight))
        return logits

    def on_given_edges(self, given: GivenEdges | None) -> Probed:
        """Return the same modules, of which the encoder gets these edges."""
        result = copy.copy(self)
        result._encode = replace(self._encode, given_edges=given)
        return result

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the graph fixed."""
        embed = self._encode.on_topology(edge_index, num_nodes)
        return lambda x: self.linear(embed(x))


def probed_adapter(encoder: Adapter, probed: Probed) -> Adapter:
    """Return encoder and probe as one model behind the harness's interface."""
    convention = detect_convention(probed, "forward", encoder.name)
    return Adapter(probed, encoder.name, convention, batch=encoder.batch)


def on_given_edges(adapter: Adapter, given: GivenEdges | None) -> Adapter:
    """Return a model whose user's own module gets these edges."""
    if not isinstance(adapter.module, Probed):
        return replace(adapter, given_edges=given)
    return replace(adapter, module=adapter.module.on_given_edges(given))


def user_adapter(adapter: Adapter) -> Adapter:
    """Return the adapter of the user's own module: of a probed encoder that of the encoder."""
    return adapter.module.adapter if isinstance(adapter.module, Probed) else adapter
