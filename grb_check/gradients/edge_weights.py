"""Edge weights for modules of any kind: several weightings, of which the first valid one is used.

A weighting is valid if it passes the trial of `weight_trial`. If none does, the same is tried of
the module with random masks and votes replaced by `averages`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from torch import Tensor

from grb_check.datasets.given_edges import SeenEdges
from grb_check.errors import GradientError
from grb_check.gradients.averaging import averages, have_effect
from grb_check.gradients.edge_lookup import EdgeLookup
from grb_check.gradients.layer_calls import layers_of
from grb_check.gradients.sparse_sums import SparseSums
from grb_check.gradients.weight_trial import WeightedForward, Weighting, weight_trial
from grb_check.gradients.weighted_matrices import MatrixOf, as_called, csr_of
from grb_check.gradients.weighted_reductions import weighted_reductions
from grb_check.victims.adapter import Adapter
from grb_check.victims.adjacency import MOST_DENSE_NODES
from grb_check.victims.conventions import Role
from grb_check.victims.probed import Probed


def first_valid_weighting(
    adapter: Adapter, x: Tensor, edge_index: Tensor, pairs: Tensor
) -> Weighting | None:
    """Return the first weighting of the pairs that passes the trial; None if none does.

    The trial takes four forward passes and one backward pass for each weighting, see
    `weight_trial`.

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
    trial = weight_trial(adapter, x, edge_index, pairs)
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
