"""Suites: the cases that run if the user names nothing else. Imports neither torch nor numpy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from grb_check.attacks.names import (
    WORST,
    base_name,
    split_budget,
    split_gang,
    with_budget,
    without_budgets,
)
from grb_check.attacks.registry import (
    Pair,
    is_targeted,
    local_budget_of,
    name_at_local_budget,
    source_of,
    tagged,
)
from grb_check.attacks.scenarios import EVASION, INJECTION, MODIFICATION, POISONING
from grb_check.cases.attack_pairs import attack_order, on_graphs
from grb_check.cases.case import DIFFICULTIES, WHOLE, Case
from grb_check.cases.selection import check_on_graphs
from grb_check.datasets import Source
from grb_check.datasets.metric_names import is_recall
from grb_check.datasets.source import FeatureRule, SplitRule, Training
from grb_check.errors import UsageError

# For each threat attacks that do not know the model, attacks that do, and the worst of all.
_AUDIT: Final = {
    INJECTION: (
        *("pgd", "speit", "tdgia", "agia"),
        *("pgd+white-box", "tdgia+white-box", "agia+white-box"),
        "worst",
    ),
    MODIFICATION: (
        *("dice", "stack", "prbcd+black-box", "grbcd+black-box"),
        *("pgd+white-box", "prbcd", "grbcd", "eva"),
        *("lrbcd+black-box", "lrbcd", "prbcd+local=0.5", "eva+local=0.5"),
        *("worst", "worst+local=0.5"),
    ),
}
_OF_GANGS: Final = (
    (INJECTION, "pgd"),
    (INJECTION, "pgd+white-box"),
    (MODIFICATION, "rnd"),
    (MODIFICATION, "camouflage"),
    (MODIFICATION, "prbcd+black-box"),
    (MODIFICATION, "prbcd"),
    (MODIFICATION, "sga"),
)
FOR_GRAPHS: Final = "graphs"  # the default if only sets of graphs are named


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Cases, how datasets are split and used for training, and what figures are of."""

    name: str
    datasets: tuple[str, ...]
    difficulties: tuple[str, ...]
    attacks: tuple[Pair, ...]
    repeats: int
    split: SplitRule | None = None
    training: Training = "inductive"
    features: FeatureRule | None = None
    metric: str | None = None


_SUITES: Final = (
    # A minute or two on a laptop; `full` adds little to the three other difficulties.
    Suite(
        name="smoke",
        datasets=("synthetic-cora",),
        difficulties=("easy", "medium", "hard"),
        attacks=tagged("smoke"),
        repeats=3,
    ),
    Suite(
        name="standard",
        datasets=("synthetic-cora",),
        difficulties=DIFFICULTIES,
        attacks=tuple(
            sorted(
                (*tagged("standard"), *((scenario, WORST) for scenario in EVASION)),
                key=attack_order,
            )
        ),
        repeats=3,
    ),
    # The grid of the GRB leaderboards: injection only, each attack repeated ten times.
    Suite(
        name="paper",
        datasets=("grb-cora", "grb-citeseer", "grb-flickr", "grb-reddit", "grb-aminer"),
        difficulties=DIFFICULTIES,
        attacks=tagged("paper"),
        repeats=10,
    ),
    # Does a defence stand, or does it only look so (Mujkanovic et al. 2022)?
    Suite(
        name="audit",
        datasets=("synthetic-cora",),
        difficulties=(WHOLE,),
        attacks=tuple(
            sorted(((kind, name) for kind in _AUDIT for name in _AUDIT[kind]), key=attack_order)
        ),
        repeats=3,
    ),
    # Attacks whose threat bounds the changes for single nodes; `worst` has none of them.
    Suite(
        name="local",
        datasets=("synthetic-cora",),
        difficulties=DIFFICULTIES,
        attacks=tagged("local"),
        repeats=3,
    ),
    # What is proven against one changed edge: every one is tried at every target.
    Suite(
        name="exact",
        datasets=("synthetic-cora",),
        difficulties=(WHOLE,),
        attacks=tagged("exact"),
        repeats=1,
    ),
    # What is found of a rare class when its nodes are attacked together, by edges of their own.
    Suite(
        name="fraud",
        datasets=("synthetic-fraud",),
        difficulties=(WHOLE,),
        attacks=tuple((scenario, f"{name}+gang=10x3") for scenario, name in _OF_GANGS),
        repeats=1,
        metric="recall@0.01",
    ),
    # Guerranti et al. 2023: Table 6, nodes, and Table 5, graphs; 15 initialisations each.
    Suite(
        name="contrastive",
        datasets=("planetoid-cora", "planetoid-citeseer", "planetoid-pubmed", "ogbn-arxiv"),
        difficulties=(WHOLE,),
        attacks=tagged("contrastive"),
        repeats=15,
        split="given",
        training="transductive",
        features="rows",
    ),
    Suite(
        name="contrastive-graphs",
        datasets=("proteins", "nci1", "dd"),
        difficulties=(WHOLE,),
        attacks=tagged("contrastive-graphs"),
        repeats=15,
    ),
    # Without a download, in a minute or two; GR-BCD on nodes alone would take as long again.
    Suite(
        name="contrastive-smoke",
        datasets=("synthetic-cora",),
        difficulties=(WHOLE,),
        attacks=tagged("contrastive-smoke"),
        repeats=1,
        training="transductive",
        features="rows",
    ),
    # Jin et al. 2020 attack 5 to 25 % of the edges; the model learns on the attacked graph.
    Suite(
        name=POISONING,
        datasets=("synthetic-cora",),
        difficulties=(WHOLE,),
        attacks=tuple(
            (POISONING, with_budget(name, share))
            for name in (*(name for _, name in tagged(POISONING)), "dice", "prbcd")
            for share in (0.01, 0.05, 0.1, 0.25)
        ),
        repeats=3,
        training="transductive",
    ),
    Suite(
        name="graphs",
        datasets=("synthetic-molecules",),
        difficulties=(WHOLE,),
        attacks=tagged("graphs"),
        repeats=3,
    ),
)
SUITES: Final[Mapping[str, Suite]] = {suite.name: suite for suite in _SUITES}


def worst_members(worst: Pair, selected: Sequence[Pair]) -> tuple[str, ...]:
    """Return the names of the attacks of which `worst` is the strongest, all with its budgets.

    Args:
        worst: scenario and name, with or without budgets.
        selected: attacks of the run, as the user selected them. If they have no `worst` of the
            scenario, or nothing else of it, the members are those of the suite `standard`, or of
            `poisoning`. Attacks on single targets, and of gangs, are no members: their threats are
            others. Nor are attacks of another local budget, if there are some of this one.
    """
    scenario, name = worst
    chosen = any(kind == scenario and base_name(other) == WORST for kind, other in selected)
    usual = (SUITES[suite].attacks for suite in ("standard", POISONING))
    for attacks in (selected if chosen else (), *usual):
        others = [
            other
            for kind, other in attacks
            if kind == scenario
            and base_name(other) != WORST
            and not is_targeted(kind, other)
            and split_gang(other)[1] is None
        ]
        if others:
            break
    bound = local_budget_of(*worst)
    if bound is not None:  # which replayed injections do not have
        others = [other for other in others if source_of(scenario, other)[0] != INJECTION]
    alike = [other for other in others if local_budget_of(scenario, other) == bound]
    plain = {without_budgets(other) for other in alike or others}
    budget = split_budget(name)[1]
    members = {
        (scenario, with_budget(name_at_local_budget(scenario, other, bound), budget))
        for other in plain
    }
    return tuple(other for _, other in sorted(members, key=attack_order))


def members_of(case: Case, selected: Sequence[Pair], *, of_graphs: bool) -> tuple[Case, ...]:
    """Return the cases whose strongest `worst` is; of any other case, that case alone.

    Args:
        case: of a run.
        selected: attacks of the run as the user selected them, see `worst_members`.
        of_graphs: whether its dataset is a set of graphs, on which not every attack can run.
    """
    if base_name(case.attack) != WORST:
        return (case,)
    possible = [pair for pair in selected if not of_graphs or on_graphs(pair)]
    members = worst_members((case.scenario, case.attack), possible)
    return tuple(
        replace(case, attack=name)
        for name in members
        if not of_graphs or on_graphs((case.scenario, name))
    )


def check_poisoned_in_training(attacks: Iterable[Pair], *, transductive: bool) -> None:
    """Refuse poisoning that models do not see in training, on the training nodes alone.

    Raises:
        UsageError: says how to select the other setting.
    """
    for scenario, name in attacks:
        in_training = source_of(scenario, name)[0] != INJECTION and not is_targeted(scenario, name)
        if scenario == POISONING and not (transductive or in_training):
            raise UsageError(
                f"attack {scenario}/{base_name(name)} changes the graph at the test nodes, which "
                f"models do not see in training here; give --grb-training=transductive, or another "
                f"attack on edges, such as {POISONING}/metattack"
            )


def check_recall(attacks: Iterable[Pair], metric: str | None) -> None:
    """Refuse the recall of models that learn from an attacked graph.

    Their threshold would be set on validation nodes of that graph.

    Raises:
        UsageError: names the attack and the metric.
    """
    poisoning = [name for scenario, name in attacks if scenario == POISONING]
    if metric is not None and is_recall(metric) and poisoning:
        raise UsageError(
            f"attack {POISONING}/{base_name(poisoning[0])} changes the graph before the training, "
            f"and a threshold of {metric} is set on clean validation nodes; give --grb-metric="
            f"accuracy, or attacks on trained models"
        )


def check_graph_sets(
    sources: Sequence[Source], levels: Collection[str], attacks: Sequence[Pair], *, named: bool
) -> None:
    """Refuse difficulties and attacks that no set of graphs among the datasets can have.

    Args:
        sources: datasets of the run.
        levels: difficulties that the user named; empty for the suite's.
        attacks: that were selected.
        named: whether the user named the attacks.

    Raises:
        UsageError: names the attack or difficulty, and what sets of graphs can have.
    """
    sets = [source.name for source in sources if source.of_graphs]
    if not sets:
        return
    possible = {name for scenario, name in attacks if on_graphs((scenario, name))}
    impossible = [pair for pair in attacks if pair[1] not in possible]  # in no scenario
    alone = len(sets) == len(sources)
    if impossible and not possible and not named:
        raise UsageError(
            f"{sets[0]} is a set of graphs, and the suite has no attack on sets of graphs; give "
            f"--grb-suite={FOR_GRAPHS}, or name attacks with --grb-attack"
        )
    if impossible and (not possible or (named and alone)):
        check_on_graphs(Case(sets[0], WHOLE, *impossible[0]))
    if alone and levels and WHOLE not in levels:
        check_on_graphs(Case(sets[0], min(levels), *tagged("graphs")[0]))
