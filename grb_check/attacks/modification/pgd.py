"""PGD: features of some targets by projected gradient steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.injection.shared.feature_search import check_ascent, maximise
from grb_check.attacks.injection.shared.steps import sign_step
from grb_check.attacks.modification.dice import ModificationDice
from grb_check.attacks.modification.rnd import ModificationRnd
from grb_check.attacks.modification.shared.edge_set import adjacency_of
from grb_check.attacks.modification.shared.removable import shortfall
from grb_check.attacks.objectives import Objective, highest_of, objective_named
from grb_check.attacks.protocol import Attack, DifferentiableModel, members
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import check_positive
from grb_check.attacks.threat import Knowledge, Perturbation, Threat, apply
from grb_check.errors import choose

MOST_ROUNDS: Final = 64
FAINT: Final = 0.05
ROWS: Final = 512  # of the matrix of reaches, computed at once
# Structure -> a function that makes the attack on edges; GRB's is `deletions`.
STRUCTURES: Final[Mapping[str, Callable[[bool], Attack | None]]] = {
    "dice": lambda isolate: ModificationDice(isolate=isolate),
    "rnd": lambda isolate: ModificationRnd(isolate=isolate),
    "deletions": lambda isolate: ModificationRnd(isolate=isolate, restrict="deletions"),
    "none": lambda isolate: None,
}
CHOICES: Final = ("coverage", "random")


def covering_nodes(
    graph: Data, targets: Tensor, count: int, reach: float, generator: torch.Generator
) -> Tensor:
    """Return targets that together reach many targets within two hops, int64 [count].

    How far node v reaches t is the entry (t, v) of the squared normalised adjacency with loops,
    D^{-1/2} (A + I) D^{-1/2}, as a share of `reach`, at most 1. By the greedy rule of maximum
    coverage, the nodes that reach most of what is not yet reached come first; in at most
    `MOST_ROUNDS` rounds of equal size.

    Args:
        graph: N nodes.
        targets: int64 [t] on the CPU.
        count: at most t.
        reach: entry from which a node counts as fully reached, above 0.
        generator: breaks ties between nodes that reach equally much.
    """
    targets = targets[torch.randperm(targets.numel(), generator=generator)]
    reaches = _reaches(graph, targets, reach)
    missed = np.ones(targets.numel())
    chosen = torch.empty(0, dtype=torch.int64)
    rounds = min(count, MOST_ROUNDS)
    for number in range(1, rounds + 1):
        gains = torch.from_numpy(reaches @ missed)
        gains[chosen] = -1.0
        share = count * number // rounds - chosen.numel()
        best = gains.argsort(descending=True, stable=True)[:share]
        chosen = torch.cat([chosen, best])
        missed = np.maximum(missed - reaches[best.numpy()].sum(axis=0), 0.0)
    return targets[chosen]


def _reaches(graph: Data, targets: Tensor, reach: float) -> sp.csr_array:
    """Return how far, 0 to 1, the target of a row reaches that of a column: sparse float64 [t, t].

    Entries below `FAINT` are dropped: two hops through a hub reach every other node there a little,
    which would fill the matrix.
    """
    adjacency = adjacency_of(graph) + sp.eye_array(graph.num_nodes)
    scale = sp.diags_array(1.0 / np.sqrt(adjacency.sum(axis=1)))
    rows = sp.csr_array(scale @ adjacency @ scale)[targets.numpy()]
    columns = sp.csc_array(rows.T)
    blocks = []
    for start in range(0, targets.numel(), ROWS):
        block = sp.csr_array(rows[start : start + ROWS] @ columns)
        block.data = np.minimum(block.data / reach, 1.0)
        block.data[block.data < FAINT] = 0.0
        block.eliminate_zeros()
        blocks.append(block)
    return sp.csr_array(sp.vstack(blocks)) if blocks else sp.csr_array((0, 0))


def objective_of_rows(
    graph: Data, nodes: Tensor, targets: Tensor, model: DifferentiableModel, objective: Objective
) -> Callable[[Tensor], Tensor]:
    """Return the map from features [m, d] of some nodes to the objective over the targets (scalar).

    The nodes are placed last, so that a model treats them as injected nodes and recomputes only
    what they change, if it can.

    Args:
        graph: `y` holds the labels to move the targets away from.
        nodes: int64 [m], distinct.
        targets: int64 [t]; nodes may be among them.
        model: the objective is averaged over its members.
        objective: from logits [t, c] and labels [t] to a scalar.
    """
    is_last = torch.zeros(graph.num_nodes, dtype=torch.bool, device=nodes.device)
    is_last[nodes] = True
    rest = (~is_last).nonzero().squeeze(1)
    order = torch.cat([rest, nodes])
    position = torch.empty_like(order)
    position[order] = torch.arange(order.numel(), device=order.device)
    edges, ends, labels = position[graph.edge_index], position[targets], graph.y[targets]
    maps = [
        member.with_injected(graph.x[rest], edges, nodes.numel(), ends) for member in members(model)
    ]

    def value(features: Tensor) -> Tensor:
        return torch.stack([objective(logits_of(features), labels) for logits_of in maps]).mean()

    return value


@dataclass(frozen=True, kw_only=True)
class ModificationPgd:
    r"""Random flips of edges, and features of some targets by gradient steps.

    `Towards Deep Learning Models Resistant to Adversarial Attacks
    <https://arxiv.org/abs/1706.06083>`_ (Madry et al. 2018, section 2.1) as GRB's modification PGD
    uses it (Zheng et al. 2021, appendix A.4.2): edges are flipped at random, then the features of
    the nodes v that may change ascend

    .. math:: x_v \leftarrow \mathrm{clip}_{[l, h]}\left(x_v + \epsilon \cdot
        \mathrm{sign}(\nabla_{x_v} J(x))\right)

    from their original values. J is `objective` over the guessed labels of all targets; the best
    iterate is returned. Features of all other nodes stay unchanged, in the range or not.

    The choice of nodes matters most. GRB draws them at random. Here they are the targets that
    together reach most targets within two hops, see `covering_nodes`. (Our choice:
    without flips, 40 such nodes on Cora leave a GCN 51 % of 85.4 %, random ones 70 %, and those
    with the largest gradient within the range 78 to 80 %: a node's gradient is large if it mainly
    affects itself.)

    Args:
        step_size: epsilon. (our choice)
        iterations: maximum number of steps. (our choice; 500 smaller ones gained no more on Cora)
        objective: our choice; GRB's is cross_entropy.
        node_choice: `coverage` or `random`.
        reach: weight of a two-hop path from which a node counts as fully reached. (our choice)
        structure: attack that spends the edge budget: `rnd`, `dice`, `deletions` (GRB's) or `none`.
        isolate: whether a node may lose its last edge.
        patience, surrogates, knowledge: see `feature_search.AscentSettings`.
    """

    step_size: float = 0.05
    iterations: int = 100
    patience: int | None = 20
    objective: str = "tanh_margin"
    node_choice: str = "coverage"
    reach: float = 0.02
    structure: str = "rnd"
    isolate: bool = True
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "black-box"

    name: ClassVar[str] = "pgd"
    scenario: ClassVar[Scenario] = MODIFICATION
    # Its output changes with theirs.
    version: ClassVar[int] = 2 + ModificationDice.version + ModificationRnd.version

    def __post_init__(self) -> None:
        check_ascent(self)
        choose("node_choice", self.node_choice, CHOICES)
        choose("structure", self.structure, tuple(STRUCTURES))
        check_positive(self, "reach")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip edges, then choose nodes and find features with the model's gradient."""
        structure = self._structure(graph, threat, model, generator)
        nodes = self._nodes(apply(graph, structure), threat, generator)
        if not nodes.numel():
            return structure
        features = self._features(apply(graph, structure), nodes, threat, model)
        return replace(structure, modified_nodes=nodes, modified_x=features.cpu())

    def _structure(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        attack = STRUCTURES[self.structure](self.isolate)
        if attack is None:
            return Perturbation(notes=shortfall(0, threat.edge_budget, "structure is none"))
        return attack.perturb(graph, threat, model, generator)

    def _nodes(self, graph: Data, threat: Threat, generator: torch.Generator) -> Tensor:
        """Return the targets whose features change, int64 [m], on the CPU."""
        targets = threat.targets.cpu()
        count = min(threat.modified_nodes, targets.numel())
        if self.node_choice == "random":
            return targets[torch.randperm(targets.numel(), generator=generator)[:count]]
        return covering_nodes(graph, targets, count, self.reach, generator)

    def _features(
        self, graph: Data, nodes: Tensor, threat: Threat, model: DifferentiableModel
    ) -> Tensor:
        """Return the best features float32 [m, d] of these nodes that gradient steps find."""
        nodes = nodes.to(graph.x.device)
        return maximise(
            objective_of_rows(graph, nodes, threat.targets, model, objective_named(self.objective)),
            graph.x[nodes].clamp(*threat.feature_range),
            step=sign_step(self.step_size, threat.feature_range),
            iterations=self.iterations,
            patience=self.patience,
            highest=highest_of(self.objective),
        )
