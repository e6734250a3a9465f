r"""Layers of PyG restricted to the rows that injected nodes change.

A layer maps features h of all nodes to features of all nodes. If only the rows in C differ from
those of a known call, and only the rows in O are requested, then

* the features of all other nodes enter the layer's first linear map once, when the graph is fixed;
* sums over neighbours, c_O + P[O, C] z_C, have a constant part c (GCN, GIN, GraphSAGE);
* an attention that is normalised over neighbours merges what the constant ones give, numerator N
  and denominator D of each head, with the others (GAT):

  .. math:: h_i' = \frac{N_i + \sum_j e^{a_{ij}} z_j}{D_i + \sum_j e^{a_{ij}}};

* any other layer is called on the edges that lead into O.

All of them are exact but for rounding. A weight w of the link between an injected node and a
candidate counts as an edge of that weight: it scales the message, in the degrees of a GCNConv and
the number of neighbours of a mean it counts w, and in an attention e^a becomes w e^a. Weights are
small dense matrices beside the fixed graph, while `edge_weights` makes two edges for every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.utils import add_remaining_self_loops, add_self_loops, remove_self_loops

from grb_check.gradients.layer_calls import LayerCall, OnRows
from grb_check.victims.receptive_field import is_patched
from grb_check.victims.sparse import csr_block, csr_matrix, positions_of, product

# Features of C, float [k, a], and weights of links [n, m], if there are any -> O, float [o, b].
RestrictedLayer: TypeAlias = Callable[[Tensor, Tensor | None], Tensor]
_STEEPEST: Final = 60.0  # of exponents of absent links, whose weight is 0
# z float [k, heads, c], and its products with the halves of `a` for sources and targets [k, heads].
_Sent: TypeAlias = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Links:
    """All pairs of an injected node and a candidate.

    Attributes:
        count: n, injected nodes, the last ones.
        candidates: int64 [m].
        num_nodes: N + n.
    """

    count: int
    candidates: Tensor
    num_nodes: int

    @property
    def injected(self) -> Tensor:
        """int64 [n]."""
        first = self.num_nodes - self.count
        return torch.arange(first, self.num_nodes, device=self.candidates.device)

    def pattern(self, like: Tensor) -> Tensor:
        """Return weights float [n, m] of 0 and 1 at random, at least one link for each node."""
        generator = torch.Generator().manual_seed(0)
        width = self.candidates.numel()
        drawn = torch.rand((self.count, width), generator=generator)
        # Of each row the smallest, and about 20 others.
        present = drawn <= drawn.amin(1, keepdim=True).clamp(min=min(0.5, 20 / width))
        return present.to(like)

    def edges(self, weights: Tensor) -> Tensor:
        """Return the links of weights other than 0 in both directions, int64 [2, e]."""
        new, column = weights.nonzero().T
        forth = torch.stack([self.injected[new], self.candidates[column]])
        return torch.cat([forth, forth.flip(0)], dim=1)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one call that change, and those that are requested.

    Attributes:
        changed: C, int64 [k], ascending.
        requested: O, int64 [m], ascending.
        num_nodes: N, with the injected nodes.
        links: those that have weights, if any; their ends are among O.
    """

    changed: Tensor
    requested: Tensor
    num_nodes: int
    links: Links | None = None

    def replaced(self, constant: Tensor) -> OnRows:
        """Return the map from rows of C [k, a] to rows of O [m, a], with a constant for the rest.

        Args:
            constant: float [N, a].
        """
        return spread(constant, self.changed, self.requested)


def spread(constant: Tensor, changed: Tensor, requested: Tensor) -> OnRows:
    """Return the map from rows [k, a] to those requested [m, a], constant [N, a] if unchanged."""
    position = positions_of(requested, constant.shape[0])[changed]
    inside = (position >= 0).nonzero().squeeze(1)
    position, fixed = position[inside], constant[requested]
    if inside.numel() == changed.numel():
        return lambda h: fixed.to(h.dtype).index_copy(0, position, h)
    # Unlike h[inside], index_select has a backward pass that does not sort.
    return lambda h: fixed.to(h.dtype).index_copy(0, position, h.index_select(0, inside))


def restricted(call: LayerCall, rows: Rows) -> RestrictedLayer | None:
    """Return the layer as a map from rows that change to rows that are requested.

    Returns:
        None if there are links, and the layer has no closed form.
    """
    closed_form = _CLOSED_FORMS.get(type(call.layer))
    layer = closed_form(call, rows) if closed_form is not None and _is_usual(call) else None
    return _on_edges(call, rows) if layer is None and rows.links is None else layer


def divides_by_senders_degree(call: LayerCall) -> bool:
    """Return whether a new link of a node changes what a layer sends along its other edges."""
    return isinstance(call.layer, GCNConv) and call.layer.normalize


def _is_usual(call: LayerCall) -> bool:
    """Return whether a layer does what its type says, from its sources to its targets."""
    given = {name for name, value in call.others.items() if value is not None}
    forward_only = call.layer.flow == "source_to_target" and not call.layer.training
    return given <= {"edge_weight"} and forward_only and not is_patched(call.layer)


def _gcn(call: LayerCall, rows: Rows) -> RestrictedLayer | None:
    layer = cast(GCNConv, call.layer)
    if layer.cached or not isinstance(layer.aggr_module, SumAggregation):
        return None
    edges, weights = call.edge_index, call.edge_weight
    if layer.normalize and layer.add_self_loops:
        loop = 2.0 if layer.improved else 1.0  # without weights it is 1, improved or not
        edges, weights = add_remaining_self_loops(edges, weights, loop, rows.num_nodes)
    if weights is None:
        weights = call.x.new_ones(edges.shape[1])
    source, target = edges
    bias = 0.0 if layer.bias is None else layer.bias
    z = layer.lin(call.x)
    if not layer.normalize:
        plain = _neighbour_sums(edges, weights, z, rows)
        return lambda h, of_links: plain(layer.lin(h), of_links) + bias
    degrees = weights.new_zeros(rows.num_nodes).index_add(0, target, weights)
    scale = _inverse_root(degrees)
    links = rows.links
    if links is None:
        fixed = _neighbour_sums(edges, scale[source] * weights * scale[target], z, rows)
        return lambda h, of_links: fixed(layer.lin(h), of_links) + bias
    # Links change the scales of candidates, too.
    changed = torch.unique(torch.cat([rows.changed, links.candidates]))
    with_candidates = spread(z, rows.changed, changed)
    sums = _neighbour_sums(edges, weights, scale[:, None] * z, replace(rows, changed=changed))

    def output(h: Tensor, of_links: Tensor | None) -> Tensor:
        assert of_links is not None
        total = degrees.index_add(0, links.injected, of_links.sum(1))
        scale = _inverse_root(total.index_add(0, links.candidates, of_links.sum(0)))[:, None]
        summed = sums(scale[changed] * with_candidates(layer.lin(h)), of_links)
        return scale[rows.requested] * summed + bias

    return output


def _inverse_root(degrees: Tensor) -> Tensor:
    positive = degrees > 0
    return torch.where(positive, torch.where(positive, degrees, 1.0).rsqrt(), 0.0)


def _gin(call: LayerCall, rows: Rows) -> RestrictedLayer | None:
    layer = cast(GINConv, call.layer)
    if not isinstance(layer.aggr_module, SumAggregation):
        return None
    ones = call.x.new_ones(call.edge_index.shape[1])
    nodes = torch.arange(rows.num_nodes, device=call.x.device)
    edges = torch.cat([call.edge_index, nodes.expand(2, -1)], dim=1)
    weights = torch.cat([ones, (1 + layer.eps).to(ones).expand(rows.num_nodes)])
    first, others = _first_linear(layer.nn)
    sums = _neighbour_sums(edges, weights, first(call.x), rows)
    return lambda h, of_links: others(sums(first(h), of_links))


def _first_linear(module: torch.nn.Module) -> tuple[OnRows, OnRows]:
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


def _sage(call: LayerCall, rows: Rows) -> RestrictedLayer | None:
    layer = cast(SAGEConv, call.layer)
    if type(layer.aggr_module) not in (SumAggregation, MeanAggregation):
        return None
    edges, is_mean = call.edge_index, type(layer.aggr_module) is MeanAggregation

    def sent(h: Tensor) -> Tensor:
        h = layer.lin(h).relu() if layer.project else h
        return F.linear(h, layer.lin_l.weight)

    ones = call.x.new_ones(edges.shape[1])
    sums = _neighbour_sums(edges, ones, sent(call.x), rows)
    degrees = torch.bincount(edges[1], minlength=rows.num_nodes).to(ones)[rows.requested]
    counts = _with_links(degrees, rows)
    bias = 0.0 if layer.lin_l.bias is None else layer.lin_l.bias
    root = rows.replaced(layer.lin_r(call.x)) if layer.root_weight else None

    def output(h: Tensor, of_links: Tensor | None) -> Tensor:
        out = sums(sent(h), of_links)
        if is_mean:
            total = counts(of_links)
            out = out / torch.where(total > 0, total, 1.0)[:, None]
        out = out + bias
        if root is not None:
            out = out + root(layer.lin_r(h))
        return F.normalize(out, p=2.0, dim=-1) if layer.normalize else out

    return output


def _with_links(degrees: Tensor, rows: Rows) -> Callable[[Tensor | None], Tensor]:
    """Return the map from weights of links to the degrees of O with them, float [m]."""
    links = rows.links
    if links is None:
        return lambda of_links: degrees
    position = positions_of(rows.requested, rows.num_nodes)
    new, old = position[links.injected], position[links.candidates]

    def added(of_links: Tensor | None) -> Tensor:
        assert of_links is not None
        return degrees.index_add(0, new, of_links.sum(1)).index_add(0, old, of_links.sum(0))

    return added


def _neighbour_sums(
    edges: Tensor, weights: Tensor, constant: Tensor, rows: Rows
) -> RestrictedLayer:
    """Return the weighted sums over the neighbours of O, those along links by their weights.

    Args:
        edges: int64 [2, f], from sources to targets.
        weights: float [f].
        constant: float [N, r], rows outside C.
    """
    source, target = edges
    matrix = csr_matrix(target, source, weights, rows.num_nodes)
    outside = constant.clone()
    outside[rows.changed] = 0
    rest = (matrix @ outside)[rows.requested]
    block = csr_block(matrix, rows.requested, rows.changed)
    turned = csr_matrix(source, target, weights, rows.num_nodes)
    transposed = csr_block(turned, rows.changed, rows.requested)
    links = rows.links
    if links is None:
        return lambda z, of_links: product(block, z, transposed) + rest
    from_injected = spread(constant, rows.changed, links.injected)
    from_candidates = spread(constant, rows.changed, links.candidates)
    position = positions_of(rows.requested, rows.num_nodes)
    new, old = position[links.injected], position[links.candidates]

    def sums(z: Tensor, of_links: Tensor | None) -> Tensor:
        assert of_links is not None
        fixed = product(block, z, transposed) + rest
        to_injected = fixed.index_add(0, new, of_links @ from_candidates(z))
        return to_injected.index_add(0, old, of_links.T @ from_injected(z))

    return sums


def _gat(call: LayerCall, rows: Rows) -> RestrictedLayer | None:
    layer = cast(GATConv, call.layer)
    if layer.lin is None or layer.lin_edge is not None or layer.res is not None:
        return None
    if not isinstance(layer.aggr_module, SumAggregation) or call.edge_weight is not None:
        return None
    edges = call.edge_index
    if layer.add_self_loops:
        edges, _ = remove_self_loops(edges)
        edges, _ = add_self_loops(edges, num_nodes=rows.num_nodes)

    def sent(h: Tensor) -> _Sent:
        z = layer.lin(h).view(-1, layer.heads, layer.out_channels)
        return z, (z * layer.att_src).sum(-1), (z * layer.att_dst).sum(-1)

    constant = sent(call.x)
    attention = _Attention(edges, rows, constant, layer.negative_slope)
    along_links = None
    if rows.links is not None:
        along_links = _LinkAttention(rows, rows.links, constant, layer.negative_slope)

    def output(h: Tensor, of_links: Tensor | None) -> Tensor:
        if along_links is None or of_links is None:
            upper, lower, _ = attention(sent(h))
        else:
            upper, lower = along_links(sent(h), of_links, attention)
        out = upper / (lower + 1e-16)[..., None]  # 0 for a node without neighbours
        out = out.flatten(1) if layer.concat else out.mean(dim=1)
        return out if layer.bias is None else out + layer.bias

    return output


class _Attention:
    """Attention over the neighbours of O, of which those outside C are merged once.

    Args:
        edges: int64 [2, f], from sources to targets, self-loops included.
        rows: C and O.
        constant: of all N nodes.
        slope: of the leaky ReLU.
    """

    def __init__(self, edges: Tensor, rows: Rows, constant: _Sent, slope: float) -> None:
        z, by_source, by_target = constant
        self._slope = slope
        self._size = rows.requested.numel()
        position = positions_of(rows.requested, rows.num_nodes)
        edges = edges[:, position[edges[1]] >= 0]
        changes = positions_of(rows.changed, rows.num_nodes)[edges].ge(0).any(dim=0)
        source, target = edges[:, ~changes]
        scores = F.leaky_relu(by_source[source] + by_target[target], slope)
        self._top = _highest(scores, position[target], self._size)
        weights = (scores - _finite(self._top)[position[target]]).exp()
        zeros = z.new_zeros((self._size, *z.shape[1:]))
        self._lower = zeros[..., 0].index_add(0, position[target], weights)
        self._upper = zeros.index_add(0, position[target], weights[..., None] * z[source])
        source, target = edges[:, changes]
        self._target = position[target]
        senders, self._source = source.unique(return_inverse=True)
        self._sent = spread(z, rows.changed, senders)
        self._by_source = spread(by_source, rows.changed, senders)
        self._by_target = rows.replaced(by_target)

    def __call__(self, sent: _Sent, other: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return numerators [m, heads, c] and denominators [m, heads], and what scales them.

        Args:
            sent: of C.
            other: float [m, heads], the highest score of other senders; -inf for none.

        Returns:
            Both as sums of exp(score - top), and top, float [m, heads].
        """
        z, by_source, by_target = sent
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


class _LinkAttention:
    """Attention over all links between n injected nodes and m candidates, beside `_Attention`.

    Args:
        rows, links: injected nodes and candidates are among O.
        constant: of all N nodes.
        slope: of the leaky ReLU.
    """

    def __init__(self, rows: Rows, links: Links, constant: _Sent, slope: float) -> None:
        self._slope, self._size = slope, rows.requested.numel()
        self._injected = [spread(tensor, rows.changed, links.injected) for tensor in constant]
        self._candidates = [spread(tensor, rows.changed, links.candidates) for tensor in constant]
        position = positions_of(rows.requested, rows.num_nodes)
        self._new, self._old = position[links.injected], position[links.candidates]

    def __call__(
        self, sent: _Sent, of_links: Tensor, attention: _Attention
    ) -> tuple[Tensor, Tensor]:
        """Return numerators [m, heads, c] and denominators [m, heads] of all neighbours of O."""
        z_new, from_new, to_new = (of(h) for of, h in zip(self._injected, sent, strict=True))
        z_old, from_old, to_old = (of(h) for of, h in zip(self._candidates, sent, strict=True))
        # [n, m, heads], for messages to candidates and to injected nodes.
        down = F.leaky_relu(from_new[:, None] + to_old, self._slope)
        up = F.leaky_relu(to_new[:, None] + from_old, self._slope)
        absent = (of_links.detach() == 0)[..., None]
        highest = z_new.new_full((self._size, z_new.shape[1]), -torch.inf)
        highest[self._new] = up.detach().masked_fill(absent, -torch.inf).amax(1)
        highest[self._old] = down.detach().masked_fill(absent, -torch.inf).amax(0)
        upper, lower, top = attention(sent, highest)
        down = of_links[..., None] * (down - top[self._old]).clamp(max=_STEEPEST).exp()
        up = of_links[..., None] * (up - top[self._new][:, None]).clamp(max=_STEEPEST).exp()
        lower = lower.index_add(0, self._new, up.sum(1)).index_add(0, self._old, down.sum(0))
        upper = upper.index_add(0, self._new, torch.einsum("nmh,mhc->nhc", up, z_old))
        return upper.index_add(0, self._old, torch.einsum("nmh,nhc->mhc", down, z_new)), lower


def _highest(scores: Tensor, target: Tensor, size: int) -> Tensor:
    """Return the highest score of each target, float [size, heads]; -inf for none."""
    lowest = scores.new_full((size, scores.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, target[:, None].expand_as(scores), scores, "amax")


def _finite(top: Tensor) -> Tensor:
    return torch.where(top.isfinite(), top, 0.0)


def _on_edges(call: LayerCall, rows: Rows) -> RestrictedLayer:
    """Return any layer of one hop, called on the edges that lead into O."""
    into = positions_of(rows.requested, rows.num_nodes)[call.edge_index[1]] >= 0
    edges = call.edge_index[:, into]
    nodes = torch.unique(torch.cat([rows.requested, edges[0]]))
    position = positions_of(nodes, rows.num_nodes)
    requested, edges = position[rows.requested], position[edges]
    features = spread(call.x, rows.changed, nodes)
    others = {
        name: value[into] if isinstance(value, Tensor) and value.shape[:1] == into.shape else value
        for name, value in call.others.items()
    }
    forward = call.layer.forward
    return lambda h, _: cast(Tensor, forward(features(h), edges, **others))[requested]


# Of exactly these types. Each returns None for settings that it does not know.
_CLOSED_FORMS: Final[Mapping[type, Callable[[LayerCall, Rows], RestrictedLayer | None]]] = {
    GCNConv: _gcn,
    GINConv: _gin,
    SAGEConv: _sage,
    GATConv: _gat,
}
