r"""Layers of PyG restricted to the rows that injected nodes change.

A layer maps features h of all nodes to features of all nodes. If only the rows in C differ from
those of a known call, and only the rows in O are asked for, then

* the features of all other nodes enter the layer's first linear map once, when the graph is fixed;
* sums over neighbours, c_O + P[O, C] z_C, have a constant part c (GCN, GIN, GraphSAGE);
* an attention that is normalised over neighbours merges what the constant ones give, numerator N
  and denominator D of each head, with the others (GAT):

  .. math:: h_i' = \frac{N_i + \sum_j e^{a_{ij}} z_j}{D_i + \sum_j e^{a_{ij}}};

* any other layer is called on the edges that lead into O.

All of them are exact but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, remove_self_loops

from grb_check.gradients.layer_calls import LayerCall, OnRows
from grb_check.victims.receptive_field import is_patched
from grb_check.victims.sparse import csr_block, csr_matrix, positions_of, product


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one call that change, and those that are asked for.

    Attributes:
        changed: C, int64 [k], ascending.
        asked: O, int64 [m], ascending.
        num_nodes: N.
    """

    changed: Tensor
    asked: Tensor
    num_nodes: int

    def replaced(self, constant: Tensor) -> OnRows:
        """Return the map from rows of C [k, a] to rows of O [m, a], with a constant for the rest.

        Args:
            constant: float [N, a].
        """
        return spread(constant, self.changed, self.asked)


def spread(constant: Tensor, changed: Tensor, asked: Tensor) -> OnRows:
    """Return the map from rows [k, a] to the asked rows [m, a], constant [N, a] if not changed."""
    place = positions_of(asked, constant.shape[0])[changed]
    kept = (place >= 0).nonzero().squeeze(1)
    place, fixed = place[kept], constant[asked]
    every = kept.numel() == changed.numel()
    # Unlike h[kept], index_select has a backward pass that does not sort.
    return lambda h: fixed.to(h.dtype).index_copy(0, place, h if every else h.index_select(0, kept))


def restricted(call: LayerCall, rows: Rows) -> OnRows:
    """Return the layer as a map from rows that change to rows that are asked for."""
    plan = _PLANS.get(type(call.layer))
    if plan is not None and is_usual(call):
        found = plan(call, rows)
        if found is not None:
            return found
    return _on_edges(call, rows)


def is_usual(call: LayerCall) -> bool:
    """Return whether a layer does what its type says, from its sources to its targets."""
    given = {name for name, value in call.others.items() if value is not None}
    forward_only = call.layer.flow == "source_to_target" and not call.layer.training
    return given <= {"edge_weight"} and forward_only and not is_patched(call.layer)


def _gcn(call: LayerCall, rows: Rows) -> OnRows | None:
    layer = cast(GCNConv, call.layer)
    if layer.cached or not isinstance(layer.aggr_module, SumAggregation):
        return None
    edges, weights = call.edge_index, call.edge_weight
    if layer.normalize:
        edges, weights = gcn_norm(
            edges, weights, rows.num_nodes, layer.improved, layer.add_self_loops, layer.flow,
            call.x.dtype,
        )  # fmt: skip
    if weights is None:
        weights = call.x.new_ones(edges.shape[1])
    summed = weighted_sums(edges, weights, layer.lin(call.x), rows)
    bias = 0.0 if layer.bias is None else layer.bias
    return lambda h: summed(layer.lin(h)) + bias


def _gin(call: LayerCall, rows: Rows) -> OnRows | None:
    layer = cast(GINConv, call.layer)
    if not isinstance(layer.aggr_module, SumAggregation):
        return None
    edges, ones = call.edge_index, call.x.new_ones(call.edge_index.shape[1])
    nodes = torch.arange(rows.num_nodes, device=edges.device)
    edges = torch.cat([edges, nodes.expand(2, -1)], dim=1)
    weights = torch.cat([ones, (1 + layer.eps).to(ones).expand(rows.num_nodes)])
    first, others = first_linear(layer.nn)
    summed = weighted_sums(edges, weights, first(call.x), rows)
    return lambda h: others(summed(first(h)))


def first_linear(module: torch.nn.Module) -> tuple[OnRows, OnRows]:
    """Return a linear map without bias and the rest of a module that begins with it, if it does.

    Such a map commutes with sums over neighbours, and makes rows shorter.
    """
    parts = list(module) if type(module) is torch.nn.Sequential else []
    if not parts or type(parts[0]) is not torch.nn.Linear:
        return (lambda h: h), module
    first, others = parts[0], parts[1:]
    bias = 0.0 if first.bias is None else first.bias

    def rest(h: Tensor) -> Tensor:
        h = h + bias
        for part in others:
            h = part(h)
        return h

    return (lambda h: F.linear(h, first.weight)), rest


def _sage(call: LayerCall, rows: Rows) -> OnRows | None:
    layer = cast(SAGEConv, call.layer)
    if type(layer.aggr_module) not in (SumAggregation, MeanAggregation):
        return None
    edges = call.edge_index
    weights = call.x.new_ones(edges.shape[1])
    if type(layer.aggr_module) is MeanAggregation:
        degrees = torch.bincount(edges[1], minlength=rows.num_nodes).to(weights)
        weights = weights / degrees[edges[1]]

    def sent(h: Tensor) -> Tensor:
        h = layer.lin(h).relu() if layer.project else h
        return F.linear(h, layer.lin_l.weight)

    summed = weighted_sums(edges, weights, sent(call.x), rows)
    bias = 0.0 if layer.lin_l.bias is None else layer.lin_l.bias
    root = rows.replaced(layer.lin_r(call.x)) if layer.root_weight else None

    def output(h: Tensor) -> Tensor:
        out = summed(sent(h)) + bias
        if root is not None:
            out = out + root(layer.lin_r(h))
        return F.normalize(out, p=2.0, dim=-1) if layer.normalize else out

    return output


def weighted_sums(edges: Tensor, weights: Tensor, constant: Tensor, rows: Rows) -> OnRows:
    """Return the map from rows of C [k, r] to the weighted sums over the neighbours of O [m, r].

    Args:
        edges: int64 [2, f], from sources to targets.
        weights: float [f].
        constant: float [N, r], rows outside C.
    """
    source, target = edges
    matrix = csr_matrix(target, source, weights, rows.num_nodes)
    outside = constant.clone()
    outside[rows.changed] = 0
    rest = (matrix @ outside)[rows.asked]
    block = csr_block(matrix, rows.asked, rows.changed)
    turned = csr_matrix(source, target, weights, rows.num_nodes)
    transposed = csr_block(turned, rows.changed, rows.asked)
    return lambda h: product(block, h, transposed) + rest


def _gat(call: LayerCall, rows: Rows) -> OnRows | None:
    layer = cast(GATConv, call.layer)
    if layer.lin is None or layer.lin_edge is not None or layer.res is not None:
        return None
    if not isinstance(layer.aggr_module, SumAggregation) or call.edge_weight is not None:
        return None
    heads, columns = layer.heads, layer.out_channels
    edges = call.edge_index
    if layer.add_self_loops:
        edges, _ = remove_self_loops(edges)
        edges, _ = add_self_loops(edges, num_nodes=rows.num_nodes)

    def sent(h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = layer.lin(h).view(-1, heads, columns)
        return z, (z * layer.att_src).sum(-1), (z * layer.att_dst).sum(-1)

    attention = Attention(edges, rows, sent(call.x), layer.negative_slope)

    def output(h: Tensor) -> Tensor:
        out = attention(*sent(h))
        out = out.flatten(1) if layer.concat else out.mean(dim=1)
        return out if layer.bias is None else out + layer.bias

    return output


class Attention:
    """Attention over the neighbours of O, of which those outside C are merged once.

    Args:
        edges: int64 [2, f], from sources to targets, self-loops included.
        rows: C and O.
        constant: z float [N, heads, c] and its products with the two halves of `a`, [N, heads].
        slope: of the leaky ReLU.
    """

    def __init__(
        self, edges: Tensor, rows: Rows, constant: tuple[Tensor, Tensor, Tensor], slope: float
    ) -> None:
        z, by_source, by_target = constant
        self._slope = slope
        self._size = rows.asked.numel()
        place = positions_of(rows.asked, rows.num_nodes)
        edges = edges[:, place[edges[1]] >= 0]
        changes = positions_of(rows.changed, rows.num_nodes)[edges].ge(0).any(dim=0)
        source, target = edges[:, ~changes]
        scores = F.leaky_relu(by_source[source] + by_target[target], slope)
        self._top = _highest(scores, place[target], self._size)
        weights = (scores - _finite(self._top)[place[target]]).exp()
        zeros = z.new_zeros((self._size, *z.shape[1:]))
        self._lower = zeros[..., 0].index_add(0, place[target], weights)
        self._upper = zeros.index_add(0, place[target], weights[..., None] * z[source])
        source, target = edges[:, changes]
        self._target = place[target]
        senders, self._source = source.unique(return_inverse=True)
        self._sent = spread(z, rows.changed, senders)
        self._by_source = spread(by_source, rows.changed, senders)
        self._by_target = rows.replaced(by_target)

    def __call__(self, z: Tensor, by_source: Tensor, by_target: Tensor) -> Tensor:
        """Return the means float [m, heads, c], for z of C and its products."""
        upper, lower, _ = self.sums(z, by_source, by_target)
        return ratio(upper, lower)

    def sums(
        self, z: Tensor, by_source: Tensor, by_target: Tensor, other: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return numerators [m, heads, c] and denominators [m, heads], and what scales them.

        Args:
            z: float [k, heads, c], of C.
            by_source, by_target: float [k, heads].
            other: float [m, heads], the highest score of other senders; -inf for none.

        Returns:
            Both as sums of exp(score - top), and top, float [m, heads].
        """
        scores = self._by_source(by_source).index_select(0, self._source)
        scores = scores + self._by_target(by_target).index_select(0, self._target)
        scores = F.leaky_relu(scores, self._slope)
        # Any number may be subtracted from all scores of a target: no gradient flows through it.
        top = torch.maximum(self._top, _highest(scores.detach(), self._target, self._size))
        top = _finite(top if other is None else torch.maximum(top, other))
        weights = (scores - top[self._target]).exp()
        share = (self._top - top).exp()
        lower = (share * self._lower).index_add(0, self._target, weights)
        messages = weights[..., None] * self._sent(z).index_select(0, self._source)
        upper = (share[..., None] * self._upper).index_add(0, self._target, messages)
        return upper, lower, top


def ratio(upper: Tensor, lower: Tensor) -> Tensor:
    """Return float [m, heads, c]: 0 for a node without neighbours."""
    return upper / (lower + 1e-16)[..., None]


def _highest(scores: Tensor, target: Tensor, size: int) -> Tensor:
    """Return the highest score of each target, float [size, heads]; -inf for none."""
    lowest = scores.new_full((size, scores.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, target[:, None].expand_as(scores), scores, "amax")


def _finite(top: Tensor) -> Tensor:
    return torch.where(top.isfinite(), top, 0.0)


def _on_edges(call: LayerCall, rows: Rows) -> OnRows:
    """Return any layer of one hop, called on the edges that lead into O."""
    into = positions_of(rows.asked, rows.num_nodes)[call.edge_index[1]] >= 0
    edges = call.edge_index[:, into]
    nodes = torch.unique(torch.cat([rows.asked, edges[0]]))
    place = positions_of(nodes, rows.num_nodes)
    wanted, edges = place[rows.asked], place[edges]
    features = spread(call.x, rows.changed, nodes)
    others = {
        name: value[into] if isinstance(value, Tensor) and value.shape[:1] == into.shape else value
        for name, value in call.others.items()
    }
    forward = call.layer.forward
    return lambda h: cast(Tensor, forward(features(h), edges, **others))[wanted]


# Of exactly these types. Each plan returns None for settings that it does not know.
_PLANS: Final[Mapping[type, Callable[[LayerCall, Rows], OnRows | None]]] = {
    GCNConv: _gcn,
    GINConv: _gin,
    SAGEConv: _sage,
    GATConv: _gat,
}
