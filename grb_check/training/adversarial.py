"""Adversarial training: a model is trained on graphs into which an attack injects nodes.

GRB's general defence AT (`Graph Robustness Benchmark <https://arxiv.org/abs/2111.04314>`_, Zheng et
al. 2021, appendix A.4.3): (1) a warm-up on the clean training graph; (2) FGSM injects nodes to
attack the training nodes of the current model; (3) one update on the injected graph, by the loss of
the training nodes; (4) repeat from (2) until convergence. Any other injection attack can take the
place of FGSM.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from grb_check.attacks.injection.fgsm import InjectionFgsm
from grb_check.attacks.names import has_setting, with_settings
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import Attack
from grb_check.attacks.scenarios import INJECTION
from grb_check.attacks.threat import Threat, apply
from grb_check.errors import UsageError
from grb_check.gradients.victim import Victim
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
from grb_check.victims.wrappers import Wrapped, frozen

CORA_TRAINING_NODES: Final = 1608  # of grb-cora
CORA_NODES: Final = 60
CORA_EDGES: Final = 20
# The attack that states are compared by has twice the links per target, as the harness's own
# attacks do, and three times the steps: the attack of the iterations is too weak to rank states.
JUDGING_NODES: Final = 2
JUDGING_STEPS: Final = 3
WARMUP: Final = TrainingSettings(max_epochs=50)
UNDER_ATTACK: Final = TrainingSettings(max_epochs=100, patience=30, warmup_epochs=1)


@dataclass(frozen=True, kw_only=True)
class AdversarialSettings:
    """Settings of adversarial training.

    Attributes:
        injected_nodes: of the attack of one iteration, once the budget has grown; None: 60 for
            grb-cora's 1,608 training nodes, scaled as in `attacks.budgets`.
        edges_per_injected_node: None: 20 for as many training nodes, scaled likewise.
        feature_range: of injected features; None: that of the training graph.
        steps: of FGSM in each iteration.
        step_size: of one step; None: all steps together reach from 0 to the farther limit.
        objective: maximised by FGSM, one of `attacks.objectives.OBJECTIVES`.
        attack: white-box injection attack of each iteration instead of FGSM, such as
            `InjectionTdgia(knowledge="white-box", iterations=10)`; `steps`, `step_size` and
            `objective` are then those of the attack.
        warmup: settings of the training on the clean graph.
        training: settings of the training under attack.
        growth: iterations over which the number of injected nodes grows from 1 to its maximum;
            only later states can be chosen as the best one.
        measure_every: iterations between two measurements on the validation nodes.
    """

    injected_nodes: int | None = None
    edges_per_injected_node: int | None = None
    feature_range: tuple[float, float] | None = None
    steps: int = 3
    step_size: float | None = None
    objective: str = "tanh_margin"
    attack: Attack | None = None
    warmup: TrainingSettings = WARMUP
    training: TrainingSettings = UNDER_ATTACK
    growth: int = 25
    measure_every: int = 10

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("growth", 0), ("measure_every", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("injected_nodes", "edges_per_injected_node"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}; it must be at least 1, or None")
        if self.step_size is not None and not self.step_size > 0:
            raise UsageError(f"step_size is {self.step_size}; it must be above 0, or None")
        limits = self.feature_range
        if limits is not None and not (
            len(limits) == 2 and -math.inf < limits[0] <= limits[1] < math.inf
        ):
            raise UsageError(
                f"feature_range is {limits}; it must be two finite limits, the lower one first"
            )
        objective_named(self.objective)
        if self.attack is not None:
            _check_attack(self.attack)


def _check_attack(attack: Attack) -> None:
    known = getattr(attack, "scenario", None), getattr(attack, "knowledge", None)
    if known != (INJECTION, "white-box"):
        raise UsageError(
            f"attack is {attack!r}; it must be an injection attack on the model itself, such as "
            f"InjectionPgd(knowledge='white-box', iterations=10)"
        )


def adversarial_training(
    module: nn.Module | Wrapped,
    data: Data,
    validation: Data | None = None,
    *,
    settings: AdversarialSettings | None = None,
    seed: int | None = None,
) -> TrainingRun:
    """Train a module in place against FGSM injection, and leave it in its best state.

    Args:
        module: untrained, in any calling convention that the harness knows, or wrapped by
            `grb_check.wrap`; on the device of the data.
        data: `x` float [n, d], `edge_index` int64 [2, e] with both directions of each edge, `y`
            int64 [n], and `train_mask` bool [n] unless all nodes are training nodes.
        validation: the same with `val_mask`; the best state has the highest mean of its clean and
            attacked score: accuracy, or average precision where figures are recalls. None: `data`
            if that has a `val_mask`, otherwise the training nodes.
        settings: see `AdversarialSettings`.
        seed: of everything random; None: drawn from torch's global generator.

    Returns:
        Iterations under attack, the best one, and its score, the mean of clean and attacked
        score of the validation nodes.

    Raises:
        DataError: a graph lacks a field, or a field is invalid.
        ModelError: the module cannot be called, trained or attacked.
        UsageError: a setting is out of range.
    """
    chosen = AdversarialSettings() if settings is None else settings
    if not isinstance(chosen, AdversarialSettings):
        raise UsageError(
            f"settings is a {type(chosen).__name__}; give grb_check.AdversarialSettings(...)"
        )
    seed = checked_seed(drawn_seed() if seed is None else seed)
    adapter = adapter_of(module)
    if validation is None and isinstance(data, Data) and "val_mask" in data:
        validation = data
    columns = check_views(adapter, data, validation, seed=seed)
    trained_on = _AttackedNodes(adapter, columns, data, masked_nodes(data, "train_mask"))
    judged_on = trained_on
    if validation is not None:
        judged_on = _AttackedNodes(
            adapter, columns, validation, masked_nodes(validation, "val_mask")
        )
    threat = threat_to(data, trained_on.nodes, chosen)
    _try_attack(trained_on, threat, chosen, seed)
    descend(adapter, loss_on(adapter, data, columns), _clean(judged_on), chosen.warmup, seed=seed)
    return descend(
        adapter,
        _loss_under_growing_attack(trained_on, threat, chosen, seed),
        _robustness(judged_on, _judging(threat, judged_on.nodes), chosen, seed),
        chosen.training,
        seed=derive_seed("under attack", seed),
        measure_every=chosen.measure_every,
        measure_from=chosen.growth,
    )


def threat_to(view: Data, targets: Tensor, settings: AdversarialSettings) -> Threat:
    r"""Return the threat of the attack of one iteration.

    For t targets, with :math:`c = \max(1, (t / 1608)^{0.4})`, the defaults are

    .. math:: \text{nodes} = 60 \cdot t / 1608 / c, \qquad \text{edges per node} = 20 \cdot c

    rounded, at least 1 node, at most t edges, as in `attacks.budgets`; grb-cora has 1,608 training
    nodes.

    Args:
        view: its features give the default feature range.
        targets: int64 [t].
        settings: override the defaults.
    """
    count = int(targets.numel())
    growth = max(1.0, (count / CORA_TRAINING_NODES) ** 0.4)
    nodes, edges = settings.injected_nodes, settings.edges_per_injected_node
    if nodes is None:
        nodes = max(1, round(CORA_NODES * count / CORA_TRAINING_NODES / growth))
    if edges is None:
        edges = round(CORA_EDGES * growth)
    return Threat(
        scenario=INJECTION,
        targets=targets,
        injected_nodes=nodes,
        edges_per_injected_node=min(edges, count),
        feature_range=settings.feature_range or (float(view.x.min()), float(view.x.max())),
    )


def attack_of(settings: AdversarialSettings, limits: tuple[float, float]) -> Attack:
    """Return the attack of one iteration, for features within these limits."""
    if settings.attack is not None:
        return settings.attack
    low, high = limits
    start = min(max(0.0, low), high)
    reach = max(high - start, start - low) / settings.steps
    return InjectionFgsm(
        step_size=settings.step_size or max(reach, 1e-30),
        iterations=settings.steps,
        patience=None,
        objective=settings.objective,
        knowledge="white-box",
    )


def with_iterations(attack: Attack, changed: Callable[[int], int]) -> Attack:
    """Return an attack with another number of iterations, if it has such a setting."""
    if not has_setting(attack, "iterations"):
        return attack
    requested = {"iterations": changed(attack.iterations)}  # type: ignore[attr-defined]
    return with_settings(attack, requested, attack.name)


@dataclass(frozen=True, eq=False)
class _AttackedNodes:
    """A graph and the nodes of it that are attacked.

    Attributes:
        adapter: the model.
        columns: of its logits.
        view: the clean graph.
        nodes: int64 [t], the targets.
    """

    adapter: Adapter
    columns: int
    view: Data
    nodes: Tensor

    @property
    def truth(self) -> Tensor:
        """Labels int64 [t] of the targets."""
        labels: Tensor = self.view.y[self.nodes]
        return labels

    def attacked(
        self, attack: Attack, threat: Threat, generator: torch.Generator
    ) -> Callable[[], Tensor]:
        """Attack the current model; return a function of its differentiable logits [t, columns]."""
        with frozen(self.adapter.module):
            victim = Victim(self.adapter, self.columns, on_rows=False)
            perturbation = attack.perturb(self.view, threat, victim, generator)
        logits = logits_on(
            self.adapter, apply(self.view, perturbation), self.columns, "on an injected graph"
        )
        return lambda: logits()[self.nodes]


def _judging(threat: Threat, targets: Tensor) -> Threat:
    """Return the threat that states are compared under: `JUDGING_NODES` x the links per target."""
    share = JUDGING_NODES * targets.numel() / threat.targets.numel()
    return replace(
        threat,
        targets=targets,
        injected_nodes=max(1, round(share * threat.injected_nodes)),
        edges_per_injected_node=min(threat.edges_per_injected_node, int(targets.numel())),
    )


def _loss_under_growing_attack(
    ground: _AttackedNodes, threat: Threat, settings: AdversarialSettings, seed: int
) -> Callable[[], Tensor]:
    """Return a function that attacks the current model and computes the training nodes' loss."""
    generator = torch.Generator().manual_seed(derive_seed("attacks", seed))
    attack = attack_of(settings, threat.feature_range)
    iteration = 0

    def loss() -> Tensor:
        nonlocal iteration
        iteration += 1
        grown = min(1.0, iteration / settings.growth) if settings.growth else 1.0
        nodes = max(1, round(threat.injected_nodes * grown))
        part = replace(threat, injected_nodes=nodes)
        return F.cross_entropy(ground.attacked(attack, part, generator)(), ground.truth)

    return loss


def _try_attack(
    ground: _AttackedNodes, threat: Threat, settings: AdversarialSettings, seed: int
) -> None:
    """Attack once with one node, so that a model that cannot be attacked fails before warm-up."""
    attack = with_iterations(attack_of(settings, threat.feature_range), lambda _: 1)
    with isolated_randomness(seed):
        ground.attacked(attack, replace(threat, injected_nodes=1), torch.Generator())


def checked_seed(seed: object) -> int:
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise UsageError(f"seed is {seed!r}; it must be an integer from 0 to {2**32 - 1}")
    return seed


def _robustness(
    ground: _AttackedNodes, threat: Threat, settings: AdversarialSettings, seed: int
) -> Callable[[], tuple[float, float]]:
    """Return a function that measures the means of clean and attacked score and loss.

    The attack has the same budget and the same random links each time.
    """
    attack = attack_of(settings, threat.feature_range)
    attack = with_iterations(attack, lambda steps: JUDGING_STEPS * steps)
    clean, recall = _clean(ground), ground.view.get("recall")

    def measure() -> tuple[float, float]:
        generator = torch.Generator().manual_seed(derive_seed("measure", seed))
        logits = ground.attacked(attack, threat, generator)
        with torch.no_grad():
            score, loss = score_and_loss(logits(), ground.truth, recall)
        clean_score, clean_loss = clean()
        return (score + clean_score) / 2, (loss + clean_loss) / 2

    return measure


def _clean(ground: _AttackedNodes) -> Callable[[], tuple[float, float]]:
    return measure_on(ground.adapter, ground.view, ground.columns, ground.nodes)


def masked_nodes(view: Data, mask: str) -> Tensor:
    """Return int64 [t], the nodes of a mask; all nodes if there is none."""
    if mask in view:
        result: Tensor = view[mask].nonzero().squeeze(1)
        return result
    return torch.arange(view.x.shape[0], device=view.x.device)
