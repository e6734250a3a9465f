"""The victim: a model behind the interface of attacks and evaluation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn

from grb_check.attacks.protocol import ExactTrials, PairGradients
from grb_check.datasets.given_edges import GivenEdges
from grb_check.errors import GradientError
from grb_check.gradients.alternating import (
    Alternating,
    as_alternating,
    injected_logits,
    linked_logits,
    pair_gradients,
    pair_logits,
)
from grb_check.gradients.changed_rows import Links
from grb_check.gradients.edge_weights import first_valid_weighting
from grb_check.gradients.exact_trials import exact_trials
from grb_check.gradients.flip_deltas import DeltaTrials, alternating_layers
from grb_check.gradients.grown_rows import GrownRows
from grb_check.gradients.injected_rows import (
    LinkedLogits,
    RowForm,
    injected_row_logits,
    linked_row_logits,
)
from grb_check.gradients.layer_factors import LayerFactors
from grb_check.gradients.no_indices import OtherCallError
from grb_check.gradients.pair_graph import pair_graph
from grb_check.gradients.recorded_layers import recorded_trials
from grb_check.gradients.row_trials import RowTrials, row_trials
from grb_check.gradients.sparse_sums import in_products, same_output
from grb_check.victims.adapter import Adapter
from grb_check.victims.checks import DIVERGED, check_output
from grb_check.victims.probed import on_given_edges, user_adapter
from grb_check.victims.receptive_field import receptive_hops, receptive_part

MOST_PAIRS: Final = 200_000  # of links, 0.8 GiB with PyG's GCN of two layers of 64
MOST_DENSE_PAIRS: Final = 4_000_000  # 16 MB for each head of an attention
MOST_VALUES: Final = 50_000_000  # features on links: 0.4 GB for each tensor of messages


@dataclass(frozen=True, eq=False)
class Victim:
    """A model in evaluation mode with frozen parameters.

    Every output is checked to be finite floats [num_nodes, num_classes]; a `ModelError` says what
    is wrong. If the adapter has a `batch`, outputs and targets are of graphs instead of nodes, and
    only edges change.

    Attributes:
        adapter: the module behind the harness's interface.
        num_classes: columns of the logits.
        probabilities: whether the module returns probabilities, whose logarithm is used.
        on_rows: whether `with_injected` may spend about eight calls of the model on restricting its
            layers to the rows that change, which a few steps would not pay back.
        unit: power of two that logits are divided by, see `logit_units`.
        offset: subtracted from each row of logits before that, float [num_classes], see
            `evaluation.thresholds`; None for nothing.
        layer_factors: filled by the first call of `pair_gradients`.
        row_form: written by the first call of `with_injected`.
    """

    adapter: Adapter
    num_classes: int
    probabilities: bool = False
    on_rows: bool = True
    unit: float = 1.0
    offset: Tensor | None = None
    layer_factors: LayerFactors = field(default_factory=LayerFactors, repr=False)
    row_form: RowForm = field(default_factory=RowForm, repr=False)

    @property
    def module(self) -> nn.Module:
        """The module that is called."""
        return self.adapter.module

    @property
    def name(self) -> str:
        """Name of the model, for messages."""
        return self.adapter.name

    @property
    def takes_edge_weight(self) -> bool:
        """Whether it can be called, and differentiated, with edge weights."""
        return self.adapter.convention.takes_edge_weight

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits float [num_nodes, num_classes]."""
        output = self.adapter(x, edge_index, edge_weight)
        rows = self.adapter.rows(x.shape[0])
        return self._checked(output, rows, features=x, weights=edge_weight)

    def on_graphs(self, batch: Tensor, nodes: Tensor | None = None) -> Victim:
        """Return the model for other graphs.

        Args:
            batch: int64 [N], ascending: each node's graph.
            nodes: int64 [N], the node of the present graphs that each node is a copy of, by which
                the edges of the data are found, -1 for injected nodes; the same nodes if not given.
        """
        known = user_adapter(self.adapter).given_edges
        given = known if known is None or nodes is None else known.on(nodes)
        return replace(
            self,
            adapter=on_given_edges(replace(self.adapter, batch=batch), given),
            layer_factors=self.layer_factors.copy(),
        )

    def with_types_at(self, wanted: Tensor) -> Victim | None:
        """Return the model with types int64 [N + 1] of new edges, see `GivenEdges.with_types_at`.

        None if its edges have no types, or if it does not take them.
        """
        inner = user_adapter(self.adapter)
        known = inner.given_edges
        if known is None or known.types is None or not inner.convention.takes("edge_type"):
            return None
        return self._on_edges(known.with_types_at(wanted))

    def with_types(self, edge_index: Tensor, types: Tensor, num_nodes: int) -> Victim:
        """See `protocol.TypedModel`."""
        known = user_adapter(self.adapter).given_edges
        if known is None:
            return self
        return self._on_edges(known.with_types(edge_index, types, num_nodes))

    def _on_edges(self, given: GivenEdges) -> Victim:
        # Forms that passed a trial may do so with other types, too, but are of these.
        return replace(
            self,
            adapter=on_given_edges(self.adapter, given),
            layer_factors=LayerFactors(),
            row_form=RowForm(),
        )

    def on_topology(self, edge_index: Tensor, num_nodes: int) -> Callable[[Tensor], Tensor]:
        """Return the map from features to logits with the graph fixed."""
        forward = self.adapter.on_topology(edge_index, num_nodes)
        return lambda x: self._checked(forward(x), self.adapter.rows(x.shape[0]), features=x)

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        """Return the map from features of injected nodes to logits of targets.

        For `Alternating` models only the rows that injected nodes change are computed; so they are
        for modules around layers of PyG, if a trial agrees (`injected_rows`). Models with a known
        receptive field run on that part of the graph; all others on the whole graph.
        """
        known = self._alternating()
        if known is not None:
            logits_of = injected_logits(known, x, edge_index, count, targets)
            return lambda injected: self._checked(
                logits_of(injected), targets.numel(), features=injected
            )
        on_rows = self._on_rows(x, edge_index, count, targets)
        if on_rows is not None:
            return on_rows
        part = self._on_part(x, edge_index, count, targets)
        if part is not None:
            return part
        forward = self.on_topology(edge_index, x.shape[0] + count)
        return lambda injected: forward(torch.cat([x, injected]))[targets]

    def with_links(
        self, x: Tensor, edge_index: Tensor, count: int, candidates: Tensor, targets: Tensor
    ) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Return the map from features of injected nodes and weights of links to logits of targets.

        Returns:
            None if no weighting of the model's edges is valid, see `with_pairs`. For models that
            are neither `Alternating` nor made of the layers in `changed_rows`, also None for more
            than `MOST_PAIRS` pairs, which all become edges, or more than `MOST_VALUES` features on
            them in layers that take no weights.
        """
        known = self._alternating()
        if known is not None:
            logits_of = linked_logits(known, x, edge_index, candidates, targets)
            return lambda new, weights: self._checked(
                logits_of(new, weights), targets.numel(), features=new, weights=weights
            )
        grown = GrownRows.of(self.module, x)
        on_edges = partial(self._on_links, grown, edge_index, candidates, targets)
        links = count * candidates.numel()
        of_nodes = self.adapter.batch is None and self._on_plain_edges
        if of_nodes and links <= MOST_DENSE_PAIRS:
            on_layers = linked_row_logits(self.adapter, x, edge_index, count, candidates, targets)
            if on_layers is not None:
                return _or_edges(
                    lambda new, weights: self._checked(
                        on_layers(new, weights), targets.numel(), features=new, weights=weights
                    ),
                    on_edges,
                )
        wide = not self.takes_edge_weight and links * x.shape[1] > MOST_VALUES
        if links > MOST_PAIRS or wide:
            return None
        weighted = self._linked(grown, edge_index, count, candidates, targets)
        return None if weighted is None else _on_edges_if_fixed(weighted, on_edges)

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        """Return the map from weights of pairs of existing nodes to logits of targets.

        For `Alternating` models it is computed from their layers. All others run on a graph that
        has every pair as an edge, with the first valid weighting: as `edge_weight`; as entries of
        `adj_t` or `adj`; in every reduction over edges. See `weight_trial` for the trial, which
        each call repeats, and `victims.adjacency.MOST_DENSE_NODES` for models that need a COO or a
        dense matrix.

        An evaluation takes the time and memory of a forward pass on e + 2m edges.

        Returns:
            None if no weighting is valid.
        """
        known = self._alternating()
        if known is not None:
            logits_of = pair_logits(known, x, edge_index, pairs, targets)
            return lambda weights: self._checked(
                logits_of(weights), targets.numel(), weights=weights
            )
        weighting = first_valid_weighting(self.adapter, x, edge_index, pairs)
        if weighting is None:
            return None
        num_nodes = x.shape[0]
        graph = pair_graph(edge_index, pairs, num_nodes)
        weighted = weighting(self.adapter, graph.edge_index, num_nodes)

        def logits(weights: Tensor) -> Tensor:
            output = weighted(x, graph.weights(weights.to(x.dtype)))
            rows = self.adapter.rows(num_nodes)
            return self._checked(output, rows, weights=weights)[targets]

        return logits

    def pair_gradients(
        self,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> PairGradients | None:
        """Return the gradient of an objective of the targets' logits in the weights of all pairs.

        For `Alternating` models it is computed from their layers, for PyG's layers from one forward
        and one backward pass, see `layer_factors`.

        Returns:
            None for any other model, and if the trial in the first call disagrees with autograd.
        """
        known = self._alternating()
        if known is not None:
            return pair_gradients(
                known,
                x,
                edge_index,
                targets,
                lambda logits: objective(self._moved(logits)),
                edge_weight,
            )
        if not self._on_edges_of_pairs:
            return None

        def of_output(output: Tensor) -> Tensor:
            return objective(self._checked(output, self.adapter.rows(x.shape[0]))[targets])

        return self.layer_factors.gradients(self.adapter, x, edge_index, of_output, edge_weight)

    def with_flips(
        self, x: Tensor, edge_index: Tensor, targets: Tensor
    ) -> DeltaTrials | RowTrials | None:
        """Return the targets' logits under many candidate sets of flips.

        Of `Alternating` models and modules of PyG's layers only the rows that flips reach are
        computed: in closed form where the layers propagate linearly, else by calls of the layers.
        None for all others.
        """
        known = self._alternating()
        if known is not None:
            layers = alternating_layers(known, x, self._moved)
            return DeltaTrials(layers, edge_index, x.shape[0], targets)
        if self.adapter.batch is not None:
            return None
        given = self.adapter, x, edge_index, targets, self._checked
        linear = recorded_trials(*given) if self._on_plain_edges else None
        return linear or row_trials(*given)

    def exact_flips(self, x: Tensor, edge_index: Tensor, targets: Tensor) -> ExactTrials:
        """Return the answers to all single flips that can change a target, see `exact_trials`.

        Raises:
            ModelError: it is not known which these are.
        """
        known = self._on_plain_edges and receptive_hops(self.module) is not None
        proven = self._alternating() is not None or known
        return exact_trials(
            self.adapter,
            self.with_flips(x, edge_index, targets),
            "proven" if proven else "checked",
            x,
            edge_index,
            targets,
            self._checked,
        )

    def for_searches(self, x: Tensor, edge_index: Tensor) -> Victim:
        """Return the model with products in place of PyG's sums, which are faster.

        The model itself, if it has no such sums, or if the outputs on this graph differ. What is
        reported of a perturbation is the answer of the model itself, not of this form.
        """
        if self.adapter.batch is not None:
            return self
        faster = in_products(self.adapter, x.device)
        if faster is None or not same_output(faster, self.adapter, x, edge_index):
            return self
        return replace(self, adapter=faster)

    def in_double(self) -> Victim:
        """Return the model with a copy of its module in float64."""
        module = copy.deepcopy(self.module).double()
        return replace(
            self,
            adapter=replace(self.adapter, module=module),
            layer_factors=LayerFactors(),
            row_form=RowForm(),
        )

    def _alternating(self) -> Alternating | None:
        """Return the module, if its layers are known and its output is one row a node."""
        of_nodes = self.adapter.method == "forward" and self.adapter.batch is None
        return as_alternating(self.module) if of_nodes and self._on_plain_edges else None

    @property
    def _on_plain_edges(self) -> bool:
        """Whether the module gets the edges of the call as they are."""
        return user_adapter(self.adapter).given_edges is None

    @property
    def _on_edges_of_pairs(self) -> bool:
        """Whether the module gets one edge in each direction of a pair, with or without values."""
        known = self.adapter.given_edges
        return self._on_plain_edges or (
            known is not None and known.one_each and not known.attributes.keys() & {"edge_weight"}
        )

    def _on_rows(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        """Return `with_injected` on the rows that change, or None if that is not possible."""
        if self.adapter.batch is not None or not self.on_rows or not count:
            return None
        if not self._on_plain_edges:
            return None
        given = x, edge_index, count, targets
        logits_of = injected_row_logits(self.adapter, *given, self.row_form)
        if logits_of is None:
            return None
        return lambda new: self._checked(logits_of(new), targets.numel(), features=new)

    def _on_part(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        """Return `with_injected` on the targets' receptive field, or None if that is unknown."""
        known = self.adapter.method == "forward" and self._on_plain_edges
        hops = receptive_hops(self.module) if known else None
        num_nodes = x.shape[0] + count
        part = None if hops is None else receptive_part(targets, hops, edge_index, num_nodes)
        if part is None:
            return None
        nodes, edges, positions = part
        old, new = nodes[nodes < x.shape[0]], nodes[nodes >= x.shape[0]] - x.shape[0]
        forward = self.on_topology(edges, nodes.numel())
        fixed = x[old]
        return lambda injected: forward(torch.cat([fixed, injected[new]]))[positions]

    def _linked(
        self,
        grown: GrownRows,
        edge_index: Tensor,
        count: int,
        candidates: Tensor,
        targets: Tensor,
    ) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Return `with_links` on the graph that has every candidate link as a weighted edge.

        The trial has two injected nodes with the features of existing ones.
        """
        x = grown.x
        two = x[:2] if x.shape[0] > 1 else x.expand(2, -1)
        links = _links(x.shape[0], 2, candidates)
        weighting = first_valid_weighting(self.adapter, torch.cat([x, two]), edge_index, links)
        if weighting is None:
            return None
        num_nodes = x.shape[0] + count
        graph = pair_graph(edge_index, _links(x.shape[0], count, candidates), num_nodes)
        weighted = weighting(self.adapter, graph.edge_index, num_nodes)

        def logits(injected: Tensor, weights: Tensor) -> Tensor:
            given = graph.weights(weights.flatten().to(x.dtype))
            with grown.with_rows(injected) as rows:
                output = weighted(rows, given)
            return self._checked(output, num_nodes, features=injected, weights=weights)[targets]

        return logits

    def _on_links(
        self,
        grown: GrownRows,
        edge_index: Tensor,
        candidates: Tensor,
        targets: Tensor,
        injected: Tensor,
        weights: Tensor,
    ) -> Tensor:
        """Return what `with_links` does for weights of 0 and 1, by the model on a graph."""
        links = Links(injected.shape[0], candidates, grown.x.shape[0] + injected.shape[0])
        edges = torch.cat([edge_index, links.edges(weights)], dim=1)
        with grown.with_rows(injected) as rows:
            return self(rows, edges)[targets]

    def _checked(
        self,
        output: object,
        rows: int,
        *,
        features: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the output if it is valid logits, with a gradient where one is required."""
        logits = check_output(
            output,
            name=self.name,
            called=self.adapter.convention,
            rows=rows,
            columns=self.num_classes,
            one_for=self.adapter.one_for,
            advice=DIVERGED,
        )
        for what, given in (("features", features), ("edge weights", weights)):
            needed = given is not None and given.requires_grad and torch.is_grad_enabled()
            if needed and not logits.requires_grad:
                raise GradientError(
                    f"model {self.name}: its logits have no gradient in its {what}; check that its "
                    f"forward does not use torch.no_grad, detach or numpy"
                )
        # Row by row the same up to a constant as the logits that a softmax was taken of. Where it
        # underflows there is no gradient.
        if self.probabilities:
            logits = logits.clamp_min(torch.finfo(logits.dtype).tiny).log()
        return self._moved(logits)

    def _moved(self, logits: Tensor) -> Tensor:
        """Return float [n, num_classes] less the offset, in the unit."""
        if self.offset is not None:
            logits = logits - self.offset.to(logits)
        return logits if self.unit == 1.0 else logits / self.unit


def _or_edges(on_rows: LinkedLogits, on_edges: LinkedLogits) -> LinkedLogits:
    """Return a map on rows that falls back to edges for a model that is not called as it was.

    Such as one that chooses edges by features. In weights it has no gradient then.
    """

    def logits(injected: Tensor, weights: Tensor) -> Tensor:
        try:
            return on_rows(injected, weights)
        except OtherCallError as error:
            if torch.is_grad_enabled():
                raise GradientError(f"{error}, and has no gradient in weights of links") from error
            return on_edges(injected, weights)

    return logits


def _on_edges_if_fixed(weighted: LinkedLogits, on_edges: LinkedLogits) -> LinkedLogits:
    """Return a map on weighted edges that makes links edges where it needs no gradient."""

    def logits(injected: Tensor, weights: Tensor) -> Tensor:
        if torch.is_grad_enabled() or bool(((weights != 0) & (weights != 1)).any()):
            return weighted(injected, weights)
        return on_edges(injected, weights)

    return logits


def _links(num_nodes: int, count: int, candidates: Tensor) -> Tensor:
    """Return int64 [2, count * m]: each candidate with each injected node, node by node."""
    new = torch.arange(num_nodes, num_nodes + count, device=candidates.device)
    return torch.cartesian_prod(new, candidates).T.flip(0)
