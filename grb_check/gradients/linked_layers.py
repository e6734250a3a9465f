"""Logits as a function of features of injected nodes and weights of their links, layer by layer.

As `injected_rows`, for modules whose layers are all GCNConv, GINConv, SAGEConv or GATConv of PyG. A
weight w of the link between an injected node and a candidate counts as an edge of that weight: it
scales the message, in the degrees of a GCNConv and the number of neighbours of a mean it counts w,
and in an attention e^a becomes w e^a. Weights are small dense matrices beside the fixed graph,
while `edge_weights` makes two edges for every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.utils import index_to_mask

from grb_check.errors import ModelError
from grb_check.gradients.changed_rows import (
    Attention,
    Rows,
    first_linear,
    is_usual,
    ratio,
    spread,
    weighted_sums,
)
from grb_check.gradients.injected_rows import grown, trial_of
from grb_check.gradients.layer_calls import (
    LayerCall,
    OnRows,
    keeping_state,
    recorded_calls,
    replayed,
)
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.conventions import Adapter
from grb_check.victims.sparse import positions_of

LinkedLogits = Callable[[Tensor, Tensor], Tensor]
# Features of C, float [k, a], and weights [n, m] -> output of O, float [o, b].
_Linked = Callable[[Tensor, Tensor], Tensor]
_STEEPEST: Final = 60.0  # of exponents of absent links, whose weight is 0


def linked_layer_logits(
    adapter: Adapter,
    x: Tensor,
    edge_index: Tensor,
    count: int,
    candidates: Tensor,
    targets: Tensor,
) -> LinkedLogits | None:
    """Return the map from features [n, d] and weights [n, m] of links to the output [t, c].

    Args:
        adapter: of a module in evaluation mode, its parameters frozen.
        x: float [N, d], features of the existing nodes.
        edge_index: int64 [2, e], both directions of each edge of the clean graph.
        count: n, injected nodes.
        candidates: int64 [m], distinct existing nodes.
        targets: int64 [t], distinct existing nodes.

    Returns:
        None if a layer is of another type, or the trial fails: with weights of 0 and 1 the output
        and the gradient in the features must be those of the module on the graph with the links.
    """
    if not x.numel() or not targets.numel() or not candidates.numel() or not count:
        return None
    num_nodes = x.shape[0] + count
    start = torch.cat([x, x.new_zeros((count, x.shape[1]))])
    forward = keeping_state(adapter.module, adapter.with_graph(edge_index, num_nodes, {}))
    try:
        with torch.no_grad(), isolated_randomness(0):
            clean, calls = recorded_calls(adapter.module, lambda: forward(start))
    except (ModelError, RuntimeError):
        return None
    if not calls or clean.shape[:1] != (num_nodes,):
        return None
    links = _Links(count, candidates, num_nodes)
    linked = torch.cat([edge_index, links.edges(links.pattern(x))], dim=1)
    whole = adapter.on_topology(linked, num_nodes)
    try:
        trial = trial_of(lambda new: whole(torch.cat([x, new]))[targets], x, count, clean[targets])
    except (ModelError, RuntimeError):
        return None
    for sets in _linked_row_sets(calls, links, targets):
        logits_of = _on_linked_rows(forward, calls, sets, start, clean, links, targets)
        if logits_of is None:
            return None
        if trial.passed(partial(_at_pattern, logits_of, links)):
            return logits_of
    return None


def _at_pattern(logits_of: LinkedLogits, links: _Links, features: Tensor) -> Tensor:
    return logits_of(features, links.pattern(features))


def _linked_row_sets(
    calls: Sequence[LayerCall], links: _Links, targets: Tensor
) -> Iterator[Sequence[Tensor]]:
    """Yield the rows before the first layer, and after each; the fewest first.

    Injected nodes and candidates are among those after each layer. What a layer sends along all
    edges of a candidate may depend on its degree, too.
    """
    both = torch.cat([links.injected, links.candidates])
    for changed in (links.injected, both):
        reached = [index_to_mask(changed, links.num_nodes)]
        for call in calls:
            reached.append(links.grown(grown(reached[-1], *call.edge_index)))
        needed = [index_to_mask(targets, links.num_nodes)]
        for call in reversed(calls):
            needed.append(links.grown(grown(needed[-1], *call.edge_index.flip(0))))
        each = [r & n for r, n in zip(reached, reversed(needed), strict=True)]
        any_time = torch.stack([*each, index_to_mask(both, links.num_nodes)]).any(dim=0)
        rows = any_time.nonzero().squeeze(1)
        yield [links.injected, *[rows] * len(calls)]
        yield [rows] * (len(calls) + 1)


def _on_linked_rows(
    forward: OnRows,
    calls: Sequence[LayerCall],
    sets: Sequence[Tensor],
    start: Tensor,
    clean: Tensor,
    links: _Links,
    targets: Tensor,
) -> LinkedLogits | None:
    """Return the map on these rows of each layer; None if a layer is of another type."""
    parts = []
    for call, before, after in zip(calls, sets, sets[1:], strict=False):
        plan = _PLANS.get(type(call.layer))
        at = _LinkedRows(Rows(before, after, links.num_nodes), links)
        part = plan(call, at) if plan is not None and is_usual(call) else None
        if part is None:
            return None
        parts.append(part)
    first = spread(start, links.injected, sets[0])
    last = spread(clean, sets[-1], targets)

    def logits(features: Tensor, weights: Tensor) -> Tensor:
        weighted = [partial(_with_weights, part, weights) for part in parts]
        return last(replayed(forward, calls, weighted, first(features)))

    return logits


def _with_weights(part: _Linked, weights: Tensor, features: Tensor) -> Tensor:
    return part(features, weights)


@dataclass(frozen=True, eq=False)
class _Links:
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
        kept = drawn <= drawn.amin(1, keepdim=True).clamp(min=min(0.5, 20 / width))
        return kept.to(like)

    def grown(self, mask: Tensor) -> Tensor:
        """Return the mask with the candidates if an injected node is in it, and vice versa."""
        larger = mask.clone()
        larger[self.candidates] |= mask[self.injected].any()
        larger[self.injected] |= mask[self.candidates].any()
        return larger

    def edges(self, weights: Tensor) -> Tensor:
        """Return the links of weights other than 0 in both directions, int64 [2, e]."""
        new, place = weights.nonzero().T
        forth = torch.stack([self.injected[new], self.candidates[place]])
        return torch.cat([forth, forth.flip(0)], dim=1)


@dataclass(frozen=True, eq=False)
class _LinkedRows:
    """The positions of injected nodes and candidates among the rows of a call.

    Attributes:
        rows: of the call; injected nodes are among C, and both among O.
        links: all of them.
    """

    rows: Rows
    links: _Links

    def senders(self, constant: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return the map from rows of C to those of injected nodes and of candidates.

        Args:
            constant: float [N + n, ...], of other rows.
        """
        new = spread(constant, self.rows.changed, self.links.injected)
        old = spread(constant, self.rows.changed, self.links.candidates)
        return lambda h: (new(h), old(h))

    def receivers(self) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """Return the function that adds rows of injected nodes and of candidates to rows of O."""
        place = positions_of(self.rows.asked, self.rows.num_nodes)
        new, old = place[self.links.injected], place[self.links.candidates]
        return lambda h, at_new, at_old: h.index_add(0, new, at_new).index_add(0, old, at_old)

    def summed(self, edges: Tensor, weights: Tensor, constant: Tensor) -> _Linked:
        """Return the sums over neighbours in the fixed graph, and over links by their weights."""
        fixed = weighted_sums(edges, weights, constant, self.rows)
        senders, added = self.senders(constant), self.receivers()

        def sums(z: Tensor, of_links: Tensor) -> Tensor:
            new, old = senders(z)
            return added(fixed(z), of_links @ old, of_links.T @ new)

        return sums


def _gcn(call: LayerCall, at: _LinkedRows) -> _Linked | None:
    layer = cast(GCNConv, call.layer)
    if layer.cached or not layer.normalize or not isinstance(layer.aggr_module, SumAggregation):
        return None
    edges, weights, nodes = _with_loops(call, at.rows.num_nodes)
    # Without weights PyG gives self-loops the weight 1, improved or not.
    own = 2.0 if layer.improved and call.edge_weight is not None else 1.0
    loop = own if layer.add_self_loops else 0.0
    weights = torch.cat([weights, weights.new_full((nodes,), loop)])
    degrees = weights.new_zeros(nodes).index_add(0, edges[1], weights)
    z = layer.lin(call.x)
    # Links change the scales of candidates, too.
    changed = torch.unique(torch.cat([at.rows.changed, at.links.candidates]))
    wider = _LinkedRows(Rows(changed, at.rows.asked, nodes), at.links)
    known = spread(z, at.rows.changed, changed)
    summed = wider.summed(edges, weights, _scale(degrees)[:, None] * z)
    injected, candidates = at.links.injected, at.links.candidates
    bias = 0.0 if layer.bias is None else layer.bias

    def output(h: Tensor, of_links: Tensor) -> Tensor:
        total = degrees.index_add(0, injected, of_links.sum(1))
        scale = _scale(total.index_add(0, candidates, of_links.sum(0)))[:, None]
        sums = summed(scale[changed] * known(layer.lin(h)), of_links)
        return scale[at.rows.asked] * sums + bias

    return output


def _scale(degrees: Tensor) -> Tensor:
    positive = degrees > 0
    return torch.where(positive, torch.where(positive, degrees, 1.0).rsqrt(), 0.0)


def _with_loops(call: LayerCall, nodes: int) -> tuple[Tensor, Tensor, int]:
    """Return the edges with a self-loop of each node, the weights of the others, and N + n."""
    weights = call.edge_weight
    if weights is None:
        weights = call.x.new_ones(call.edge_index.shape[1])
    loops = torch.arange(nodes, device=call.x.device).expand(2, -1)
    return torch.cat([call.edge_index, loops], dim=1), weights, nodes


def _gin(call: LayerCall, at: _LinkedRows) -> _Linked | None:
    layer = cast(GINConv, call.layer)
    if not isinstance(layer.aggr_module, SumAggregation):
        return None
    edges, ones, nodes = _with_loops(call, at.rows.num_nodes)
    first, others = first_linear(layer.nn)
    weights = torch.cat([ones, (1 + layer.eps).to(ones).expand(nodes)])
    summed = at.summed(edges, weights, first(call.x))
    return lambda h, of_links: others(summed(first(h), of_links))


def _sage(call: LayerCall, at: _LinkedRows) -> _Linked | None:
    layer = cast(SAGEConv, call.layer)
    if type(layer.aggr_module) not in (SumAggregation, MeanAggregation):
        return None
    edges, mean = call.edge_index, type(layer.aggr_module) is MeanAggregation

    def sent(h: Tensor) -> Tensor:
        h = layer.lin(h).relu() if layer.project else h
        return F.linear(h, layer.lin_l.weight)

    ones = call.x.new_ones(edges.shape[1])
    summed = at.summed(edges, ones, sent(call.x))
    degrees = torch.bincount(edges[1], minlength=at.rows.num_nodes).to(ones)[at.rows.asked]
    added = at.receivers()
    bias = 0.0 if layer.lin_l.bias is None else layer.lin_l.bias
    root = at.rows.replaced(layer.lin_r(call.x)) if layer.root_weight else None

    def output(h: Tensor, of_links: Tensor) -> Tensor:
        out = summed(sent(h), of_links)
        if mean:
            total = added(degrees, of_links.sum(1), of_links.sum(0))
            out = out / torch.where(total > 0, total, 1.0)[:, None]
        out = out + bias
        if root is not None:
            out = out + root(layer.lin_r(h))
        return F.normalize(out, p=2.0, dim=-1) if layer.normalize else out

    return output


def _gat(call: LayerCall, at: _LinkedRows) -> _Linked | None:
    layer = cast(GATConv, call.layer)
    if layer.lin is None or layer.lin_edge is not None or layer.res is not None:
        return None
    if not isinstance(layer.aggr_module, SumAggregation) or call.edge_weight is not None:
        return None
    edges = _with_loops(call, at.rows.num_nodes)[0] if layer.add_self_loops else call.edge_index

    def sent(h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = layer.lin(h).view(-1, layer.heads, layer.out_channels)
        return z, (z * layer.att_src).sum(-1), (z * layer.att_dst).sum(-1)

    known = sent(call.x)
    attention = Attention(edges, at.rows, known, layer.negative_slope)
    senders = [at.senders(each) for each in known]
    added = at.receivers()
    place = positions_of(at.rows.asked, at.rows.num_nodes)
    new, old = place[at.links.injected], place[at.links.candidates]

    def output(h: Tensor, of_links: Tensor) -> Tensor:
        z, by_source, by_target = sent(h)
        (z_new, z_old), (from_new, from_old), (to_new, to_old) = (
            of(each) for of, each in zip(senders, (z, by_source, by_target), strict=True)
        )
        # [n, m, heads], for messages to candidates and to injected nodes.
        down = F.leaky_relu(from_new[:, None] + to_old, layer.negative_slope)
        up = F.leaky_relu(to_new[:, None] + from_old, layer.negative_slope)
        absent = (of_links.detach() == 0)[..., None]
        highest = z.new_full((place_count, layer.heads), -torch.inf)
        highest = highest.index_copy(0, new, up.detach().masked_fill(absent, -torch.inf).amax(1))
        highest[old] = down.detach().masked_fill(absent, -torch.inf).amax(0)
        upper, lower, top = attention.sums(z, by_source, by_target, highest)
        down = of_links[..., None] * (down - top[old]).clamp(max=_STEEPEST).exp()
        up = of_links[..., None] * (up - top[new][:, None]).clamp(max=_STEEPEST).exp()
        lower = added(lower, up.sum(1), down.sum(0))
        to_each_new = torch.einsum("nmh,mhc->nhc", up, z_old)
        out = ratio(added(upper, to_each_new, torch.einsum("nmh,nhc->mhc", down, z_new)), lower)
        out = out.flatten(1) if layer.concat else out.mean(dim=1)
        return out if layer.bias is None else out + layer.bias

    place_count = at.rows.asked.numel()
    return output


_PLANS: Final[Mapping[type, Callable[[LayerCall, _LinkedRows], _Linked | None]]] = {
    GCNConv: _gcn,
    GINConv: _gin,
    SAGEConv: _sage,
    GATConv: _gat,
}
