"""The order of attacks, and attacks at budgets. A pair is a scenario and a name."""

from __future__ import annotations

from collections.abc import Sequence

from grb_check.attacks.names import (
    WORST,
    base_name,
    split_budget,
    split_gang,
    split_local_budget,
    with_budget,
)
from grb_check.attacks.registry import Pair, attack_names, canonical_name, is_targeted, tagged
from grb_check.attacks.scenarios import EVASION, POISONING, SCENARIOS


def attack_order(pair: Pair) -> tuple[int, int, str, float]:
    """Return the key that sorts attacks as reports show them.

    By scenario; in each the built-in attacks in the registry's order, then users' by name, then
    `worst`; an attack before its variants, and small budgets before large ones.
    """
    scenario, name = pair
    built_in = attack_names()
    plain = (scenario, base_name(name))
    position = built_in.index(plain) if plain in built_in else len(built_in)
    rest, budget = split_budget(name)
    return SCENARIOS.index(scenario), position + (plain[1] == WORST), rest, budget or 0.0


def known_attacks() -> tuple[Pair, ...]:
    """Return the attacks that need no user code: the built-in ones and `worst` of each evasion."""
    return tuple(
        sorted((*attack_names(), *((scenario, WORST) for scenario in EVASION)), key=attack_order)
    )


def at_budgets(attacks: Sequence[Pair], budgets: Sequence[float]) -> tuple[Pair, ...]:
    """Return each attack at each budget, in order; one that names its budget is kept as it is.

    Raises:
        UsageError: an attack has no budget of the whole graph, but one for each of its targets.
    """
    for scenario, name in attacks if budgets else ():
        if is_targeted(scenario, name):
            canonical_name(scenario, with_budget(name, budgets[0]))  # refuses it
    every = {
        (scenario, name if split_budget(name)[1] is not None else with_budget(name, budget))
        for scenario, name in attacks
        for budget in (budgets or (None,))
    }
    return tuple(sorted(every, key=attack_order))


def on_graphs(pair: Pair) -> bool:
    """Whether an attack can attack each graph of a set within its own budget.

    Built-in attacks that can are tagged `graphs` or `exact`; their `worst` can too. A user's attack
    receives the budgets of the graphs, and is verified against them. Local budgets and gangs are
    for nodes of a single graph. Poisoning is of nodes: a set of graphs is trained on graphs that no
    attack is shown.
    """
    scenario, name = pair
    if scenario == POISONING or split_local_budget(name)[1] is not None:
        return False
    if split_gang(name)[1] is not None:
        return False
    plain = (scenario, base_name(name))
    return plain not in attack_names() or plain in attacks_on_graphs()


def attacks_on_graphs() -> tuple[Pair, ...]:
    """Return the built-in attacks that can attack each graph of a set."""
    return tuple(sorted({*tagged("graphs"), *tagged("exact")}, key=attack_order))
