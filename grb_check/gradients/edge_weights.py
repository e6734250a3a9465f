"""Edge weights for modules of any kind: several weightings, and the trial that validates them.

A weighting is used only if a trial shows that, with weights of 1 and 0, the output equals the
module's own output on the graph with the edges of weight 1, and that the weights have a gradient.
If none passes, the same is tried of the module with random masks and votes replaced by `averages`.

Models that are called with `adj_t` or `adj` are given matrices whose entries are differentiable
functions of the weights. The matrix that a model's `adj_norm_func` computes is not. If it equals a
`Normalisation` on the graph at hand, up to a constant factor and with one of the exponents of
`_EXPONENTS`, that formula is used in its place. GRB's own functions are of this form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, cast

import torch
from torch import Tensor

from grb_check.datasets.given_edges import SeenEdges
from grb_check.errors import GradientError, ModelError
from grb_check.gradients.averaging import averages, have_effect
from grb_check.gradients.layer_calls import layers_of
from grb_check.gradients.normalisation import Normalisation
from grb_check.gradients.sparse_sums import SparseSums
from grb_check.gradients.trial import Answers, agrees, along_direction
from grb_check.gradients.weighted_reductions import EdgeLookup, weighted_reductions
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.adjacency import MOST_DENSE_NODES
from grb_check.victims.conventions import Role
from grb_check.victims.probed import Probed, on_given_edges, user_adapter
from grb_check.victims.sparse import coo_matrix, csr_layout, with_long_indices, with_values

MatrixOf = Callable[[Tensor], object]  # weights float [e] -> argument of the model

# Symmetric and by rows or columns; (-1, -1) is GRB's RobustGCN; (0, 0) normalises nothing.
_EXPONENTS: Final = ((-0.5, -0.5), (-1.0, 0.0), (0.0, -1.0), (-1.0, -1.0), (0.0, 0.0))
_TOLERANCE: Final = 1e-5  # relative, of entries in float32
TRIAL_NODES: Final = 300  # at most; whole graphs up to this size
TRIAL_PAIRS: Final = 40
DRAWN: Final = 5000  # pairs from which those of the trial are taken, half of them edges if possible

# From features [N, d] and weights [e] to the output [N, c].
WeightedForward = Callable[[Tensor, Tensor], Tensor]
Weighting = Callable[[Adapter, Tensor, int], WeightedForward]  # of an adapter, edges [2, e] and N


def csr_of(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> dict[str, MatrixOf]:
    """Return functions that make the adapter's arguments `adj_t` and `adj` as sparse CSR matrices.

    Raises:
        GradientError: no normalisation fits its `adj_norm_func`.
    """
    result: dict[str, MatrixOf] = {}
    seen = adapter.seen(edge_index, num_nodes)
    if "adj_t" in adapter.convention.roles:
        matrix_of = _csr(seen.edge_index.flip(0), num_nodes, Normalisation(0.0, 0.0, 0.0))
        result["adj_t"] = _of_seen(matrix_of, seen)
    if "adj" in adapter.convention.roles:
        plain = adapter.adjacency(edge_index, num_nodes)
        result["adj"] = _of_seen(_each(plain, seen, num_nodes, _csr_like), seen)
    return result


def as_called(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> dict[str, MatrixOf]:
    """Return `csr_of` with `adj` in the layout that the model is called with, which may be dense.

    The gradient of a product with such a matrix takes a dense N x N matrix: 4 N^2 bytes.
    """
    result = csr_of(adapter, edge_index, num_nodes)
    if "adj" in result:
        plain, seen = adapter.adjacency(edge_index, num_nodes), adapter.seen(edge_index, num_nodes)
        result["adj"] = _of_seen(_each(plain, seen, num_nodes, _same_layout), seen)
    return result


def _of_seen(matrix_of: MatrixOf, seen: SeenEdges) -> MatrixOf:
    """Return a function of the weights of undirected edges from one of all edges."""
    return lambda weights: matrix_of(seen.weights(weights))


def _each(
    plain: object,
    seen: SeenEdges,
    num_nodes: int,
    make: Callable[[Tensor, Tensor, int, Normalisation], MatrixOf],
) -> MatrixOf:
    if isinstance(plain, tuple):
        every = [_each(part, seen, num_nodes, make) for part in plain]
        return lambda weights: tuple(matrix_of(weights) for matrix_of in every)
    if not isinstance(plain, Tensor) or plain.shape != (num_nodes, num_nodes):
        raise GradientError(
            f"adj_norm_func must return matrices [{num_nodes}, {num_nodes}] for edge weights"
        )
    norm = _normalisation(plain, seen.edge_index, seen.weights(), num_nodes)
    return make(plain, seen.edge_index, num_nodes, norm)


def _csr_like(plain: Tensor, edge_index: Tensor, num_nodes: int, norm: Normalisation) -> MatrixOf:
    return _csr(edge_index, num_nodes, norm)


def _csr(edge_index: Tensor, num_nodes: int, norm: Normalisation) -> MatrixOf:
    # Edges beside each other, or a self-loop of the data beside that of the rule, have one place.
    rows, columns = norm.places(edge_index, num_nodes)
    places, of_entries = torch.unique(rows * num_nodes + columns, return_inverse=True)
    layout, order = csr_layout(places // num_nodes, places % num_nodes, num_nodes)

    def matrix(weights: Tensor) -> Tensor:
        entries = norm.entries(edge_index, num_nodes, weights)
        values = entries.new_zeros(places.numel()).index_add(0, of_entries, entries)
        return with_long_indices(with_values(layout, values[order]))

    return matrix


def _same_layout(
    plain: Tensor, edge_index: Tensor, num_nodes: int, norm: Normalisation
) -> MatrixOf:
    if plain.layout == torch.sparse_csr:
        return _csr(edge_index, num_nodes, norm)
    rows, columns = norm.places(edge_index, num_nodes)

    def matrix(weights: Tensor) -> Tensor:
        values = norm.entries(edge_index, num_nodes, weights)
        if plain.layout == torch.sparse_coo:
            return coo_matrix(rows, columns, values, num_nodes)
        zeros = values.new_zeros(num_nodes, num_nodes)
        return zeros.index_put((rows, columns), values, accumulate=True)

    return matrix


def _normalisation(
    plain: Tensor, edge_index: Tensor, weights: Tensor, num_nodes: int
) -> Normalisation:
    """Return the normalisation that yields a matrix for edges with these weights."""
    flat: Tensor = torch.Tensor.to_sparse(plain).coalesce()
    given = weights.to(flat)
    for loop, (left, right), by_rows in product((1.0, 0.0), _EXPONENTS, (False, True)):
        norm = Normalisation(left, right, loop, by_rows=by_rows)
        rows, columns = norm.places(edge_index, num_nodes)
        values = norm.entries(edge_index, num_nodes, given)
        needed = coo_matrix(rows, columns, values, num_nodes)
        largest = float(needed.values().max()) if rows.numel() else 0.0
        factor = float(flat.values().max()) / largest if largest and flat._nnz() else 1.0
        error = (flat - factor * needed).coalesce().values().abs()
        if not error.numel() or float(error.max()) <= _TOLERANCE * abs(factor) * largest:
            return replace(norm, factor=factor)
    raise GradientError("adj_norm_func is not one of the known normalisations by degrees")


@dataclass(frozen=True, eq=False)
class PairGraph:
    """A graph in which some pairs of nodes have weights.

    Attributes:
        edge_index: int64 [2, e + 2m]: other edges, the pairs in one direction, then in the other.
        present: bool [m], which pairs are edges of the original graph.
    """

    edge_index: Tensor
    present: Tensor

    def weights(self, of_pairs: Tensor) -> Tensor:
        """Return the weights of all edges, float [e + 2m], for those of the pairs [m].

        A gradient that is not finite becomes 0: the square root of a degree has none at 0.
        """
        if of_pairs.requires_grad:
            of_pairs = of_pairs.view_as(of_pairs)
            of_pairs.register_hook(_finite)  # type: ignore[no-untyped-call]
        ones = of_pairs.new_ones(self.edge_index.shape[1] - 2 * self.present.numel())
        return torch.cat([ones, of_pairs, of_pairs])

    def real_edges(self, chosen: Tensor) -> Tensor:
        """Return the edges int64 [2, f] of the graph in which only chosen pairs, bool [m], are."""
        fixed = chosen.new_ones(self.edge_index.shape[1] - 2 * chosen.numel())
        return self.edge_index[:, torch.cat([fixed, chosen, chosen])]


def pair_graph(edge_index: Tensor, pairs: Tensor, num_nodes: int) -> PairGraph:
    """Return the graph with weights on some pairs of nodes.

    Args:
        edge_index: int64 [2, 2E], both directions of each edge.
        pairs: int64 [2, m], each once, in one direction.
        num_nodes: N.
    """
    positions = _places(edge_index, pairs, num_nodes)
    edges = torch.cat([edge_index[:, positions < 0], pairs, pairs.flip(0)], dim=1)
    return PairGraph(edges, _present(positions, pairs))


def first_valid_weighting(
    adapter: Adapter, x: Tensor, edge_index: Tensor, pairs: Tensor
) -> Weighting | None:
    """Return the first weighting of the pairs that passes the trial; None if none does.

    The trial takes four forward passes and one backward pass for each weighting, on a part of the
    graph with at most `TRIAL_NODES` nodes; on the whole graph if the module cannot be called on the
    part.

    Args:
        adapter: of the module.
        x: float [N, d].
        edge_index: int64 [2, 2E].
        pairs: int64 [2, m].
    """
    x = x.detach()
    result = _first_valid(adapter, x, edge_index, pairs)
    if result is None and have_effect(lambda: adapter(x, edge_index)):
        result = _first_valid(adapter.inside(averages), x, edge_index, pairs)
        return None if result is None else _of_averages(result)
    return result


def _first_valid(
    adapter: Adapter, x: Tensor, edge_index: Tensor, pairs: Tensor
) -> Weighting | None:
    trial = _trial(adapter, x, *_part(x, edge_index, pairs)) or _trial(
        adapter, x, torch.arange(x.shape[0], device=x.device), edge_index, pairs
    )
    if trial is None:
        return None
    return next(
        (weighting for weighting in _weightings(adapter, x.shape[0]) if trial.passed(weighting)),
        None,
    )


def _of_averages(weighting: Weighting) -> Weighting:
    """Return a weighting of a module with random masks and votes replaced by `averages`."""

    def of_adapter(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> WeightedForward:
        return weighting(adapter.inside(averages), edge_index, num_nodes)

    return of_adapter


def _weightings(adapter: Adapter, num_nodes: int) -> Iterator[Weighting]:
    """Yield the weightings that an adapter's convention allows, the cheapest first."""
    if isinstance(adapter.module, Probed):
        encoder = _encoder(adapter, adapter.module)
        yield from map(_probed, _weightings(encoder, num_nodes))
        return
    if adapter.convention.takes_edge_weight or "data" in adapter.convention.roles:
        yield _by_products
        yield _by_argument
    if adapter.convention.roles & {"adj", "adj_t"}:
        yield _by_csr_matrix
        if num_nodes <= MOST_DENSE_NODES:
            yield _by_own_matrix
    yield _by_reductions_and_products
    yield _by_reductions
    if layers_of(adapter.module):
        yield _by_reductions_and_matrices


def _by_argument(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> WeightedForward:
    def output(x: Tensor, weights: Tensor) -> Tensor:
        return adapter.with_graph(edge_index, num_nodes, {"edge_weight": weights})(x)

    return output


def _by_products(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> WeightedForward:
    """Weigh by argument, where products take the place of PyG's sums of messages."""
    sums = _sums_of(adapter, edge_index)
    plain = _by_argument(adapter, edge_index, num_nodes)

    def output(x: Tensor, weights: Tensor) -> Tensor:
        with sums.used():
            return plain(x, weights)

    return output


def _sums_of(adapter: Adapter, edge_index: Tensor) -> SparseSums:
    sums = SparseSums.of(adapter.module, edge_index.device)
    if sums is None:
        raise GradientError("no layer adds up messages that products could take the place of")
    return sums


def _by_csr_matrix(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> WeightedForward:
    return _by_matrices(adapter, edge_index, csr_of(adapter, edge_index, num_nodes))


def _by_own_matrix(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> WeightedForward:
    return _by_matrices(adapter, edge_index, as_called(adapter, edge_index, num_nodes))


def _by_matrices(
    adapter: Adapter, edge_index: Tensor, matrices: dict[str, MatrixOf]
) -> WeightedForward:
    def output(x: Tensor, weights: Tensor) -> Tensor:
        given = {cast(Role, role): of(weights) for role, of in matrices.items()}
        return adapter.with_graph(edge_index, x.shape[0], given)(x)

    return output


def _lookup(seen: SeenEdges, num_nodes: int) -> EdgeLookup:
    return EdgeLookup(seen.edge_index, num_nodes, seen.fixed, seen.attributes.get("edge_type"))


def _by_reductions_and_products(
    adapter: Adapter, edge_index: Tensor, num_nodes: int
) -> WeightedForward:
    """Weigh reductions, where products take the place of PyG's sums of messages."""
    sums = _sums_of(adapter, edge_index)
    seen = adapter.seen(edge_index, num_nodes)
    edges = _lookup(seen, num_nodes)
    forward = adapter.with_graph(edge_index, num_nodes, {})

    def output(x: Tensor, weights: Tensor) -> Tensor:
        factors = seen.factors(weights)
        with weighted_reductions(adapter.module, edges, factors, sums=sums):
            return forward(x)

    return output


def _by_reductions(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> WeightedForward:
    seen = adapter.seen(edge_index, num_nodes)
    edges = _lookup(seen, num_nodes)
    forward = adapter.with_graph(edge_index, num_nodes, {})

    def output(x: Tensor, weights: Tensor) -> Tensor:
        with weighted_reductions(adapter.module, edges, seen.factors(weights)):
            return forward(x)

    return output


def _by_reductions_and_matrices(
    adapter: Adapter, edge_index: Tensor, num_nodes: int
) -> WeightedForward:
    """Weigh reductions, and matrices that a module with layers of PyG multiplies with itself."""
    seen = adapter.seen(edge_index, num_nodes)
    edges = _lookup(seen, num_nodes)
    forward = adapter.with_graph(edge_index, num_nodes, {})

    def output(x: Tensor, weights: Tensor) -> Tensor:
        with weighted_reductions(adapter.module, edges, seen.factors(weights), matrices=True):
            return forward(x)

    return output


def _probed(inner: Weighting) -> Weighting:
    """Return the weighting of an encoder, followed by the probe's linear layer."""

    def weighting(adapter: Adapter, edge_index: Tensor, num_nodes: int) -> WeightedForward:
        probed = cast(Probed, adapter.module)
        encoder = _encoder(adapter, probed)
        embeddings = inner(encoder, edge_index, num_nodes)
        return lambda x, weights: probed.linear(embeddings(x, weights))

    return weighting


def _encoder(adapter: Adapter, probed: Probed) -> Adapter:
    return replace(probed.adapter, batch=adapter.batch, within=adapter.within)


@dataclass(frozen=True, eq=False)
class _WeightTrial:
    """The outputs that a weighting must reproduce.

    Attributes:
        adapter: of the module.
        x: float [n, d].
        graph: with the pairs of the trial.
        pattern: bool [p], a random choice of pairs that differs from those present.
        outputs: float [n, c] of the module itself, for the pairs present and for the pattern.
    """

    adapter: Adapter
    x: Tensor
    graph: PairGraph
    pattern: Tensor
    outputs: tuple[Tensor, Tensor]

    def passed(self, weighting: Weighting) -> bool:
        """Return whether a weighting reproduces the outputs, with a gradient if they differ."""
        try:
            weighted = weighting(self.adapter, self.graph.edge_index, self.x.shape[0])
            return self._reproduced(weighted)
        except (ModelError, RuntimeError):  # torch's error for an operation without a gradient
            return False

    def _reproduced(self, weighted: WeightedForward) -> bool:
        def of_pairs(weights: Tensor) -> Tensor:
            return weighted(self.x, self.graph.weights(weights))

        clean, changed = self.outputs
        pattern = self.pattern.to(self.x.dtype)
        with torch.no_grad(), isolated_randomness(0):
            first = of_pairs(self.graph.present.to(self.x.dtype))
        second, gradient = along_direction(of_pairs, pattern, seed=0)
        same = agrees(Answers((first, second)), Answers(self.outputs), clean)
        if gradient is None or not same:
            return False
        if bool(gradient.any()) or agrees(Answers((clean,)), Answers((changed,)), clean):
            return True
        # At the pattern the gradient may be 0 by symmetry, such as for equal nodes that are pooled.
        _, gradient = along_direction(of_pairs, torch.full_like(pattern, 0.5), seed=0)
        return gradient is not None and bool(gradient.any())


def _trial(
    adapter: Adapter, x: Tensor, nodes: Tensor, edge_index: Tensor, pairs: Tensor
) -> _WeightTrial | None:
    """Return the trial on a part of the graph; None if the module cannot be called on it.

    Args:
        adapter: of the module.
        x: float [N, d], of all nodes.
        nodes: int64 [n], those of the part.
        edge_index: int64 [2, f], as positions in `nodes`.
        pairs: int64 [2, p], as positions in `nodes`.
    """
    given = user_adapter(adapter).given_edges
    if given is not None:
        adapter = on_given_edges(adapter, given.on(nodes))
    graph = pair_graph(edge_index, pairs, nodes.numel())
    generator = torch.Generator().manual_seed(0)
    flipped = torch.rand(pairs.shape[1], generator=generator) < 0.5
    flipped[:1] = True
    pattern = graph.present ^ flipped.to(x.device)
    outputs = []
    for chosen in (graph.present, pattern):
        try:
            with torch.no_grad(), isolated_randomness(0):
                outputs.append(adapter(x[nodes], graph.real_edges(chosen)))
        except ModelError:
            return None
    return _WeightTrial(adapter, x[nodes], graph, pattern, (outputs[0], outputs[1]))


def _part(x: Tensor, edge_index: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return some of the pairs with their neighbourhood: nodes, edges and renumbered pairs."""
    num_nodes = x.shape[0]
    generator = torch.Generator().manual_seed(0)
    drawn = pairs[:, torch.randperm(pairs.shape[1], generator=generator)[:DRAWN].to(pairs.device)]
    present = _present(_places(edge_index, drawn, num_nodes), drawn)
    halves = [drawn[:, present == kind][:, : TRIAL_PAIRS // 2] for kind in (True, False)]
    chosen = torch.cat(halves, dim=1)
    if num_nodes <= TRIAL_NODES:
        return torch.arange(num_nodes, device=x.device), edge_index, chosen
    inside = torch.zeros(num_nodes, dtype=torch.bool, device=x.device)
    inside[chosen.flatten()] = True
    around = torch.unique(edge_index[1][inside[edge_index[0]] & ~inside[edge_index[1]]])
    inside[around[: TRIAL_NODES - int(inside.sum())]] = True
    edges = edge_index[:, inside[edge_index].all(dim=0)]
    fixed = edges[0, _places(edges, chosen, num_nodes) < 0]
    if fixed.numel():
        # Some layers of PyG count nodes by the largest one that has an edge.
        last = torch.bincount(fixed).argmax()
        inside[last] = False
        nodes = torch.cat([inside.nonzero().squeeze(1), last[None]])
    else:
        nodes = inside.nonzero().squeeze(1)
    positions = torch.zeros_like(inside, dtype=torch.int64)
    positions[nodes] = torch.arange(nodes.numel(), device=nodes.device)
    return nodes, positions[edges], positions[chosen]


def _places(edge_index: Tensor, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return int64 [e]: the pair that each edge is, in either direction; -1 for none."""
    of_edges, of_pairs = (_keys(ends, num_nodes) for ends in (edge_index, pairs))
    if not of_pairs.numel():
        return torch.full_like(of_edges, -1)
    keys, order = of_pairs.sort()
    positions = torch.searchsorted(keys, of_edges).clamp_(max=keys.numel() - 1)
    return torch.where(keys[positions] == of_edges, order[positions], -1)


def _present(places: Tensor, pairs: Tensor) -> Tensor:
    """Return bool [m]: which pairs are edges."""
    present = torch.zeros(pairs.shape[1], dtype=torch.bool, device=pairs.device)
    present[places[places >= 0]] = True
    return present


def _keys(ends: Tensor, num_nodes: int) -> Tensor:
    """Return int64 [e]: a number that is the same for both directions of a pair."""
    first, second = ends
    return torch.minimum(first, second) * num_nodes + torch.maximum(first, second)


def _finite(gradient: Tensor) -> Tensor:
    return torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
