r"""Adversarial training against flips of edges.

Gosch et al., `Adversarial Training for Graph Neural Networks: Pitfalls, Solutions, and New
Directions <https://arxiv.org/abs/2306.15427>`_, NeurIPS 2023: minimise over the parameters the
largest loss that an attack finds within a global budget of flips and a local one at each node. (1)
A warm-up on the clean training graph; (2) self-training: nodes of the training graph without a
label get the one that the model predicts; (3) LR-BCD, with few steps, attacks all these nodes of
the current model; (4) one update on the flipped graph; (5) repeat from (3).

Differences from the authors' code (our choices): they predict labels with a model of its own, and
train another one from the start, with no warm-up unless asked for; here the model of the warm-up
predicts the labels, and its training goes on. Their block of pairs is drawn at random; here it is
drawn from the pairs of largest gain, as in `attacks.modification.prbcd`, so that a much smaller one
will do. They train by the tanh margin too, whose gradient is small for nodes that are far from the
boundary; here training is by cross-entropy. They keep the state of the lowest attacked validation
loss; here it is the one with the highest mean of clean and attacked score, as in
`gcn_encoder.adversarial`.

The authors point out that a transductive training graph, which has the nodes and edges of the test,
lets a model seem robust because it remembers the clean graph: measure such models inductively.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set
from grb_check.attacks.modification.shared.flip_sources import CHOSEN, Aim, flip_source
from grb_check.attacks.modification.shared.greedy import SearchSpace
from grb_check.attacks.modification.shared.relaxation import Block, ascend, gains_of
from grb_check.attacks.modification.shared.removable import local_budgets
from grb_check.attacks.objectives import OBJECTIVES, objective_named
from grb_check.attacks.threat import apply
from grb_check.errors import UsageError, choose
from grb_check.gradients.victim import Victim
from grb_check.training.adversarial import checked_seed, masked_nodes
from grb_check.training.nodes import (
    TrainingRun,
    TrainingSettings,
    adapter_of,
    check_views,
    descend,
    drawn_seed,
    logits_on,
    loss_on,
    measure_on,
    score_and_loss,
)
from grb_check.user_code.randomness import derive_seed, isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.wrappers import Wrapped, evaluating, frozen

PROMISING: Final = 20  # a block is drawn from that many times as many pairs
BLOCK_BUDGETS: Final = 4  # a block has at least that many pairs for each flip of the budget
JUDGING_STEPS: Final = 2  # times the steps of an iteration: few steps are too weak to rank states
WARMUP: Final = TrainingSettings(max_epochs=100, patience=50, warmup_epochs=1)
UNDER_ATTACK: Final = TrainingSettings(max_epochs=200, patience=100, warmup_epochs=1)


@dataclass(frozen=True, kw_only=True)
class StructuralSettings:
    """Settings of adversarial training against flips of edges.

    Attributes:
        budget: flips, as a share of the edges at attacked nodes (default: 0.1, the authors' code).
        local_budget: flips at each node, as a share of its degree, rounded down (default: 0.5, the
            paper); None: no such limit, which makes the attack a PR-BCD.
        steps: of the attack in each iteration (default: 5, the authors' code).
        step_size: see `flip_weights.stepped`.
        block_size: pairs whose flips are relaxed, see `ModificationPrbcd`.
        objective: maximised by the attack, one of `attacks.objectives.OBJECTIVES` (default: the
            authors' code).
        loss: minimised by the training under attack, one of the same.
        self_training: whether nodes without a label are trained and attacked with predicted ones.
        warmup: settings of the training on the clean graph, by cross-entropy.
        training: settings of the training under attack.
        measure_every: iterations between two measurements on the validation nodes.
    """

    budget: float = 0.1
    local_budget: float | None = 0.5
    steps: int = 5
    step_size: float = 0.5
    block_size: int = 2_000
    objective: str = "tanh_margin"
    loss: str = "cross_entropy"
    self_training: bool = True
    warmup: TrainingSettings = WARMUP
    training: TrainingSettings = UNDER_ATTACK
    measure_every: int = 10

    def __post_init__(self) -> None:
        for name in ("steps", "block_size", "measure_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("budget", "step_size"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be above 0 and finite")
        if self.local_budget is not None and not 0 < self.local_budget <= 1:
            raise UsageError(
                f"local_budget is {self.local_budget}; it must be above 0 and at most 1, or None"
            )
        for name in ("objective", "loss"):
            choose(name, getattr(self, name), tuple(OBJECTIVES))


def structural_adversarial_training(
    module: nn.Module | Wrapped,
    data: Data,
    validation: Data | None = None,
    *,
    settings: StructuralSettings | None = None,
    penalty: Callable[[], Tensor] | None = None,
    seed: int | None = None,
) -> TrainingRun:
    """Train a module in place against flips of edges, and leave it in its best state.

    Args:
        module: untrained, of any kind whose edges can have weights, see `Victim.with_pairs`; on the
            device of the data.
        data: `x` float [n, d], `edge_index` int64 [2, e] with both directions of each edge, `y`
            int64 [n], and `train_mask` bool [n] unless all nodes are training nodes.
        validation: the same with `val_mask`; the best state has the highest mean of its clean and
            attacked score: accuracy, or average precision where figures are recalls. None: `data`
            if that has a `val_mask`, otherwise the training nodes.
        settings: see `StructuralSettings`.
        penalty: returns a differentiable term that is added to every loss, such as a decay of some
            of the parameters.
        seed: of everything random; None: drawn from torch's global generator.

    Returns:
        Iterations under attack, the best one, and its score, the mean of clean and attacked
        score of the validation nodes.

    Raises:
        DataError: a graph lacks a field, or a field is invalid.
        ModelError: the module cannot be called or trained, or has no gradient for edges.
        UsageError: a setting is out of range.
    """
    chosen = StructuralSettings() if settings is None else settings
    if not isinstance(chosen, StructuralSettings):
        raise UsageError(
            f"settings is a {type(chosen).__name__}; give grb_check.StructuralSettings(...)"
        )
    seed = checked_seed(drawn_seed() if seed is None else seed)
    adapter = adapter_of(module)
    if validation is None and isinstance(data, Data) and "val_mask" in data:
        validation = data
    columns = check_views(adapter, data, validation, seed=seed)
    known = masked_nodes(data, "train_mask")
    trained_on = _Ground.of(adapter, columns, data, known, chosen)
    judged_on = trained_on
    if validation is not None:
        judged_on = _Ground.of(
            adapter, columns, validation, masked_nodes(validation, "val_mask"), chosen
        )
    with isolated_randomness(seed):
        trained_on.attacked(1, torch.Generator())  # fails before the warm-up if it cannot be
    extra = penalty or (lambda: torch.zeros((), device=data.x.device))
    on_clean = loss_on(adapter, data, columns)
    descend(adapter, lambda: on_clean() + extra(), judged_on.clean(), chosen.warmup, seed=seed)
    if chosen.self_training:
        trained_on = _Ground.of(
            adapter, columns, _self_labelled(adapter, data, known), None, chosen
        )
    under_attack = _loss_under_attack(trained_on, seed)
    return descend(
        adapter,
        lambda: under_attack() + extra(),
        _robustness(judged_on, seed),
        chosen.training,
        seed=derive_seed("under attack", seed),
        measure_every=chosen.measure_every,
    )


@dataclass(frozen=True, eq=False)
class _Ground:
    """A graph and the nodes of it that are attacked.

    Attributes:
        victim: the model, for attacks.
        view: the clean graph.
        nodes: int64 [t], the targets.
        edges: of the clean graph.
        room: int64 [N], most flips at each node, or None.
        settings: of the training.
    """

    victim: Victim
    view: Data
    nodes: Tensor
    edges: EdgeSet
    room: Tensor | None
    settings: StructuralSettings

    @classmethod
    def of(
        cls,
        adapter: Adapter,
        columns: int,
        view: Data,
        nodes: Tensor | None,
        settings: StructuralSettings,
    ) -> _Ground:
        """Return the graph with these targets, or with all nodes as targets."""
        if nodes is None:
            nodes = torch.arange(view.x.shape[0], device=view.x.device)
        room = None
        if settings.local_budget is not None:
            room = local_budgets(view, settings.local_budget).to(view.x.device)
        victim = Victim(adapter, columns, on_rows=False)
        return cls(victim, view, nodes, edge_set(view), room, settings)

    @property
    def truth(self) -> Tensor:
        """Labels int64 [t] of the targets."""
        labels: Tensor = self.view.y[self.nodes]
        return labels

    @property
    def budget(self) -> int:
        """Flips of the attack, at least one: a share of half the targets' degrees."""
        degrees = self.edges.degrees()[self.nodes]
        return max(1, round(self.settings.budget * int(degrees.sum()) / 2))

    def clean(self) -> Callable[[], tuple[float, float]]:
        """Return a function that measures score and loss of the targets without an attack."""
        return measure_on(self.victim.adapter, self.view, self.victim.num_classes, self.nodes)

    def attacked(self, steps: int, generator: torch.Generator) -> Callable[[], Tensor]:
        """Attack the current model; return a function of its differentiable logits [t, columns].

        Raises:
            GradientError: the model has no gradient for edges.
        """
        with frozen(self.victim.module):
            flips = self._flips(steps, generator)
        graph = apply(self.view, self.edges.perturbation(flips))
        columns = self.victim.num_classes
        logits = logits_on(self.victim.adapter, graph, columns, "on a graph with flipped edges")
        return lambda: logits()[self.nodes]

    def _flips(self, steps: int, generator: torch.Generator) -> Tensor:
        x, settings = self.view.x, self.settings
        aim = Aim(
            self.victim,
            x,
            self.nodes,
            self.truth,
            objective_named(settings.objective),
            torch.arange(x.shape[0], device=x.device),
        )
        block = max(settings.block_size, BLOCK_BUDGETS * self.budget)
        source = flip_source(aim, self.edges, CHOSEN * block, generator)
        space = SearchSpace(self.edges, source, True, self.room)
        open_nodes = None if self.room is None else self.room > 0
        none = self.edges.codes.new_empty(0)
        ranked = source(self.edges, none, PROMISING * block, open_nodes).codes
        order = torch.randperm(ranked.numel(), generator=generator)[:block].to(ranked.device)
        relaxed = Block(ranked[order], x.new_zeros(order.numel()))
        if not relaxed.codes.numel():
            return none
        gains = gains_of(relaxed, self.edges, aim)
        for step in range(steps):
            now = gains(relaxed.weights)
            relaxed = ascend(relaxed, now, space, self.budget, settings.step_size, step)
        return space.within_room(relaxed.largest(relaxed.codes.numel()))[: self.budget]


def _self_labelled(adapter: Adapter, data: Data, known: Tensor) -> Data:
    """Return the graph with the model's predictions as labels of all nodes but the known ones."""
    with evaluating(adapter.module), torch.no_grad():
        labels = adapter(data.x, data.edge_index).argmax(dim=1)
    labels[known] = data.y[known]
    return Data(x=data.x, edge_index=data.edge_index, y=labels)


def _loss_under_attack(ground: _Ground, seed: int) -> Callable[[], Tensor]:
    """Return a function that attacks the current model and computes the targets' loss."""
    generator = torch.Generator().manual_seed(derive_seed("attacks", seed))
    loss = objective_named(ground.settings.loss)
    return lambda: loss(ground.attacked(ground.settings.steps, generator)(), ground.truth)


def _robustness(ground: _Ground, seed: int) -> Callable[[], tuple[float, float]]:
    """Return a function that measures the means of clean and attacked score and loss.

    The attack has the same budget and the same random numbers each time.
    """
    clean, recall = ground.clean(), ground.view.get("recall")

    def measure() -> tuple[float, float]:
        generator = torch.Generator().manual_seed(derive_seed("measure", seed))
        logits = ground.attacked(JUDGING_STEPS * ground.settings.steps, generator)
        with torch.no_grad():
            score, loss = score_and_loss(logits(), ground.truth, recall)
        clean_score, clean_loss = clean()
        return (score + clean_score) / 2, (loss + clean_loss) / 2

    return measure
