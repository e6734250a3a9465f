"""The interface between the harness and attacks: `Attack` and `DifferentiableModel`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.scenarios import Scenario
from grb_check.attacks.threat import BY_ENDS, Knowledge, Perturbation, Threat

# `proven`: by the model's type, or because each flip is a call of the model; `checked`: in a trial
# on some flips alone.
Basis: TypeAlias = Literal["proven", "checked"]


@dataclass(frozen=True, eq=False)
class PairGradients:
    r"""A symmetric matrix of low rank plus a term for the degrees.

    The gradient of an objective with respect to the weight of the pair {i, j} is

    .. math:: v_i \cdot u_j + v_j \cdot u_i + t_i + t_j.

    Attributes:
        inputs: u, float [N, r], the messages that nodes send, all layers side by side.
        outputs: v, float [N, r], the gradient with respect to the messages that they receive.
        degrees: t, float [N], the gradient with respect to their degrees.
    """

    inputs: Tensor
    outputs: Tensor
    degrees: Tensor

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the gradient float [r, c] for nodes `rows` int64 [r] and `columns` int64 [c]."""
        left = torch.cat([self.outputs[rows], self.inputs[rows]], dim=1)
        right = torch.cat([self.inputs[columns], self.outputs[columns]], dim=1)
        return (left @ right.T).add_(self.degrees[rows][:, None]).add_(self.degrees[columns])

    def at(self, pairs: Tensor) -> Tensor:
        """Return the gradient float [m] for pairs int64 [2, m]."""
        i, j = pairs
        there = (self.outputs[i] * self.inputs[j]).sum(1)
        back = (self.outputs[j] * self.inputs[i]).sum(1)
        return there + back + self.degrees[i] + self.degrees[j]


def mean_of(parts: Sequence[PairGradients]) -> PairGradients:
    """Return the gradient of the mean of several objectives."""
    share = 1.0 / len(parts)
    return PairGradients(
        torch.cat([part.inputs for part in parts], dim=1),
        torch.cat([share * part.outputs for part in parts], dim=1),
        share * torch.stack([part.degrees for part in parts]).sum(0),
    )


@dataclass(frozen=True, eq=False)
class FlipSets:
    """Candidates, each of which differs from the current graph by a few flips.

    Attributes:
        pairs: int64 [2, m], undirected, first < second; each once in a candidate.
        owner: int64 [m], ascending, which candidate flips the pair; 0 to `count` - 1.
        count: k, number of candidates.
    """

    pairs: Tensor
    owner: Tensor
    count: int


@dataclass(frozen=True, eq=False)
class ChangedLogits:
    """The targets that candidates change; the logits of all others stay as they are.

    Attributes:
        owner: int64 [q], ascending, of which candidate.
        position: int64 [q], position among the targets; each once in a candidate.
        logits: float [q, c], of that target under that candidate.
    """

    owner: Tensor
    position: Tensor
    logits: Tensor


class FlipTrials(Protocol):
    """The targets' logits in a graph, and under candidates for its next change."""

    @property
    def work(self) -> float:
        """Work so far, in forward passes on the whole graph; counted, not timed."""
        ...

    def logits(self) -> Tensor:
        """Return float [t, c] in the current graph."""
        ...

    def tried(self, flip_sets: FlipSets) -> ChangedLogits:
        """Return what each candidate changes; the current graph stays as it is."""
        ...

    def move(self, pairs: Tensor) -> None:
        """Flip pairs int64 [2, m], each once, in the current graph."""
        ...


@dataclass(frozen=True, eq=False)
class ExactTrials:
    """The answers of a model to single flips, and which of them matter.

    Attributes:
        trials: of the model and the targets.
        near: bool [N]: a pair without such a node changes no target.
        basis: of that, and of the answers.
        rounding: of their margins, as a share of the largest logit.
    """

    trials: FlipTrials
    near: Tensor
    basis: Basis
    rounding: float


def parts_of(flip_sets: FlipSets, size: int) -> Iterator[FlipSets]:
    """Yield the candidates in parts of `size`."""
    for first in range(0, flip_sets.count, size):
        last = min(first + size, flip_sets.count)
        limits = torch.searchsorted(flip_sets.owner, flip_sets.owner.new_tensor([first, last]))
        part = slice(*limits.tolist())
        yield FlipSets(flip_sets.pairs[:, part], flip_sets.owner[part] - first, last - first)


class DifferentiableModel(Protocol):
    """The surrogate or the victim as attacks see it: evaluation mode, parameters frozen."""

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits float [num_nodes, num_classes], differentiable in `x` (and `edge_weight`)."""
        ...

    def with_injected(
        self, x: Tensor, edge_index: Tensor, count: int, targets: Tensor
    ) -> Callable[[Tensor], Tensor]:
        """Return the map from the features of injected nodes to logits of targets.

        Everything else is fixed, and computed once if the model allows that.

        Args:
            x: float32 [N, d], features of the existing nodes.
            edge_index: int64 [2, e], edges of the attacked graph of N + count nodes.
            count: injected nodes.
            targets: int64 [t], distinct nodes; mostly existing ones.

        Returns:
            From float32 [count, d] to float [t, num_classes].
        """
        ...

    def with_links(
        self, x: Tensor, edge_index: Tensor, count: int, candidates: Tensor, targets: Tensor
    ) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Return the map from injected features and weights of their links to logits of targets.

        Args:
            x: float32 [N, d], features of the existing nodes.
            edge_index: int64 [2, e], edges of the clean graph.
            count: n, injected nodes.
            candidates: int64 [m], distinct existing nodes to link to.
            targets: int64 [t], distinct existing nodes.

        Returns:
            From float32 [n, d] and weights float32 [n, m], 1 for a link and 0 for none, to float
            [t, num_classes]. None if the model does not support such weights, or not for that many
            links.
        """
        ...

    def with_pairs(
        self, x: Tensor, edge_index: Tensor, pairs: Tensor, targets: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        """Return the map from weights of pairs of existing nodes to logits of targets.

        Args:
            x: float32 [N, d], features, fixed.
            edge_index: int64 [2, 2E], both directions of each edge of the clean graph.
            pairs: int64 [2, m], undirected, each once, first < second. A pair that is an edge gets
                its weight instead of the weight 1 of all other edges.
            targets: int64 [t], distinct nodes.

        Returns:
            From float32 [m], 1 for an edge and 0 for none, to float [t, num_classes]. None if the
            model does not support such weights.
        """
        ...

    def pair_gradients(
        self,
        x: Tensor,
        edge_index: Tensor,
        targets: Tensor,
        objective: Callable[[Tensor], Tensor],
        edge_weight: Tensor | None = None,
    ) -> PairGradients | None:
        """Return the gradient of an objective with respect to the weight of every pair of nodes.

        Args:
            x: float32 [N, d].
            edge_index: int64 [2, 2E], both directions of each edge of the current graph.
            targets: int64 [t], distinct nodes.
            objective: from logits float [t, num_classes] to a scalar.
            edge_weight: float32 [2E], the same in both directions; 1 if not given.

        Returns:
            None for a model whose layers do not have such a gradient in closed form.
        """
        ...


class GraphModel(DifferentiableModel, Protocol):
    """A model of graphs: rows of its logits and targets are graphs."""

    def on_graphs(self, batch: Tensor, nodes: Tensor | None = None) -> GraphModel:
        """Return the model for other graphs; `batch` int64 [N], ascending, is each node's graph.

        `nodes` int64 [N] is the node of the present graphs that each node is a copy of; -1 for
        injected nodes.
        """
        ...


class TypedModel(DifferentiableModel, Protocol):
    """A model that may see types of edges."""

    def with_types(self, edge_index: Tensor, types: Tensor, num_nodes: int) -> TypedModel:
        """Return the model for one attacked graph, in which new edges have these types.

        Args:
            edge_index: int64 [2, m], some of its new edges.
            types: int64 [m].
            num_nodes: of that graph.
        """
        ...


def model_on(model: DifferentiableModel, graph: Data) -> DifferentiableModel:
    """Return a model for a graph that `apply` returned: with nodes injected, or types chosen."""
    if "new_types" in graph and (graph.new_types != BY_ENDS).any():
        chosen = graph.new_types != BY_ENDS
        ends, types = graph.edge_index[:, chosen], graph.new_types[chosen]
        return cast(TypedModel, model).with_types(ends, types, graph.num_nodes)
    if "clean_nodes" not in graph:
        return model
    return cast(GraphModel, model).on_graphs(graph.batch, graph.clean_nodes)


def members(model: DifferentiableModel) -> tuple[DifferentiableModel, ...]:
    """Return the models over which attacks average their objective: an ensemble's, or the model."""
    result: tuple[DifferentiableModel, ...] = getattr(model, "members", (model,))
    return result


@runtime_checkable
class Attack(Protocol):
    """One attack: any object with these attributes, built-in or a user's.

    Built-in attacks are frozen dataclasses whose fields are their hyper-parameters; data come with
    the call. Perturbations of such a class that also has a `version` (a number, raised whenever the
    output changes) are kept in the store; those of other objects are never stored.

    Attributes:
        name: as in case ids.
        scenario: `modification`, `injection` or `poisoning`.
        knowledge: `black-box` attacks are given the surrogate, `white-box` ones the victim.
    """

    @property
    def name(self) -> str:
        """In case ids, without modifiers; lower case, with hyphens."""
        ...

    @property
    def scenario(self) -> Scenario:
        """Whether it injects nodes, modifies the graph, or changes edges before the training."""
        ...

    @property
    def knowledge(self) -> Knowledge:
        """Whether it attacks a surrogate or the victim."""
        ...

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Attack `threat.targets` of `graph`.

        Args:
            graph: `x` float32 [N, d], `edge_index` int64 [2, 2E] (both directions of each edge),
                `y` int64 [N]: true labels of training and validation nodes and the model's
                predictions for all others; for white-box attacks, also true labels of test nodes.
                For poisoning, `train_mask` bool [N] are the nodes that models learn from, and
                `inductive` tells whether they see nothing else in training.
            threat: targets and budgets. The targets of evasion that is replayed where models see
                training nodes alone are these.
            model: the model that the attack may differentiate through.
            generator: a CPU generator, the only source of randomness.

        Returns:
            A perturbation within the threat. If part of the budget is left, a note says why; if
            all of it is used, there is no such note. Ties between equally good choices are broken
            by the generator, so that repeats differ.
        """
        ...
