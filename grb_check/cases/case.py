"""The matrix: which dataset x difficulty x attack cases a run has, and what they are called.

Nothing here imports torch: collecting the cases costs nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from grb_check.attacks.names import WORST, base_name, split_budget, with_budget
from grb_check.attacks.registry import Pair, attack_names, tagged
from grb_check.errors import UsageError

DIFFICULTIES: Final = ("easy", "medium", "hard", "full")
WHOLE: Final = "full"  # the only one of a set of graphs
SCENARIOS: Final = ("injection", "modification")
NODE_PREFIX: Final = "grb"
TEST_NAME: Final = "test_attack"


@dataclass(frozen=True, order=True)
class Case:
    """One dataset x difficulty x attack, and the model's label where a run has several models.

    >>> Case("grb-cora", "easy", "injection", "pgd").id
    'grb-cora/easy/injection/pgd'
    """

    dataset: str
    difficulty: str
    scenario: str
    attack: str
    model: str = ""

    @property
    def cell(self) -> str:
        """The part that stands in the brackets of the node id."""
        return f"{self.difficulty}/{self.scenario}/{self.attack}"

    @property
    def id(self) -> str:
        prefix = f"{self.model}@" if self.model else ""
        return f"{prefix}{self.dataset}/{self.cell}"

    @property
    def order(self) -> tuple[str, str, int, tuple[int, int, str, float]]:
        """Sorts cases as reports show them."""
        level = DIFFICULTIES.index(self.difficulty)
        return (self.model, self.dataset, level, attack_order((self.scenario, self.attack)))

    def matches(self, pattern: str) -> bool:
        """Whether a shell pattern matches the id, with or without its `model@`."""
        return fnmatchcase(self.id, pattern) or fnmatchcase(f"{self.dataset}/{self.cell}", pattern)

    def fits(self, pattern: str) -> bool:
        """Whether it matches the case, or what the case is without its budget."""
        plain = replace(self, attack=split_budget(self.attack)[0])
        return self.matches(pattern) or plain.matches(pattern)


def attack_order(pair: Pair) -> tuple[int, int, str, float]:
    """Sorts attacks as reports show them.

    By scenario; in each the built-in ones in the catalogue's order, then users' by name, then the
    worst of them; an attack before its variants, and small budgets before large ones.
    """
    scenario, name = pair
    built_in = attack_names()
    plain = (scenario, base_name(name))
    place = built_in.index(plain) if plain in built_in else len(built_in)
    rest, budget = split_budget(name)
    return SCENARIOS.index(scenario), place + (plain[1] == WORST), rest, budget or 0.0


def known_attacks() -> tuple[Pair, ...]:
    """All names that need no code of the user: the built-in attacks and each scenario's worst."""
    return tuple(
        sorted((*attack_names(), *((each, WORST) for each in SCENARIOS)), key=attack_order)
    )


def at_budgets(attacks: Sequence[Pair], budgets: Sequence[float]) -> tuple[Pair, ...]:
    """Each attack at each budget, in order; one that names its budget stays as it is."""
    every = {
        (scenario, name if split_budget(name)[1] is not None else with_budget(name, budget))
        for scenario, name in attacks
        for budget in (budgets or (None,))
    }
    return tuple(sorted(every, key=attack_order))


def on_graphs(pair: Pair) -> bool:
    """Whether an attack can change each graph of a set within its own budget.

    Of the built-in ones those tagged `graphs` and the worst of them. A user's modification attack
    is given the budgets of the graphs, and held to them.
    """
    scenario, name = pair
    plain = (scenario, base_name(name))
    if plain in attack_names():
        return plain in tagged("graphs")
    return scenario == "modification"


def check_on_graphs(case: Case) -> None:
    """Refuse what a set of graphs cannot be subjected to.

    Raises:
        UsageError: an attack on a single graph, or a level that graphs do not have.
    """
    if not on_graphs((case.scenario, case.attack)):
        allowed = ", ".join("/".join(each) for each in (*tagged("graphs"), ("modification", WORST)))
        raise UsageError(
            f"{case.dataset} is a set of graphs, which {case.scenario}/{case.attack} cannot "
            f"attack; allowed: {allowed}"
        )
    if case.difficulty != WHOLE:
        raise UsageError(
            f"{case.dataset} is a set of graphs, which has no difficulty {case.difficulty!r}; "
            f"allowed: {WHOLE}"
        )


def check_repeats(name: str, value: object) -> int:
    """A number of repeats, given as number or text.

    Raises:
        UsageError: it is not a whole number of at least 1.
    """
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{name}: {value!r} is not a number of repeats; give 1 or more")
    return int(text)


def expand(
    models: Sequence[str],
    datasets: Sequence[str],
    difficulties: Sequence[str],
    attacks: Sequence[Pair],
) -> list[Case]:
    """All cases, ordered by model, dataset, difficulty, attack."""
    return [
        Case(dataset, difficulty, scenario, attack, model)
        for model in models
        for dataset in datasets
        for difficulty in difficulties
        for scenario, attack in attacks
    ]


def select(
    models: Sequence[str],
    datasets: Mapping[str, bool],
    difficulties: Sequence[str],
    attacks: Sequence[Pair],
    patterns: Sequence[str],
) -> list[Case]:
    """Return the cases of a run in order; of sets of graphs those that such a set can have.

    Args:
        models: labels.
        datasets: name -> whether it is a set of graphs.
        difficulties: of single graphs.
        attacks: scenario and name of each.
        patterns: of case ids to keep; all if there is none.

    Raises:
        UsageError: a pattern matches none of the cases.
    """
    every: list[Case] = []
    for model in models:
        for name, of_graphs in datasets.items():
            levels = (WHOLE,) if of_graphs else difficulties
            possible = list(filter(on_graphs, attacks)) if of_graphs else attacks
            every += expand([model], [name], levels, possible)
    return keep_matching(every, patterns)


def keep_matching(cases: Sequence[Case], patterns: Sequence[str]) -> list[Case]:
    """The cases that at least one pattern matches; all where there is no pattern.

    A pattern that fits a case without its budget keeps it, whatever the budget.

    Raises:
        UsageError: a pattern matches none of the cases.
    """
    for pattern in patterns:
        if not any(case.fits(pattern) for case in cases):
            near = difflib.get_close_matches(pattern, [case.id for case in cases], n=1, cutoff=0.3)
            example = near[0] if near else cases[0].id if cases else "none"
            raise UsageError(
                f"case pattern {pattern!r} matches none of the {len(cases)} selected cases; "
                f"ids look like {example!r} and shell wildcards are allowed"
            )
    return [case for case in cases if not patterns or any(case.fits(each) for each in patterns)]


@dataclass(frozen=True)
class NodeId:
    """A node id of the built-in suite, or the beginning of one, as printed by pytest."""

    parts: tuple[str, ...]  # one or two of model, dataset
    cell: str = ""

    def __str__(self) -> str:
        path = "::".join((NODE_PREFIX, *self.parts))
        return f"{path}::{TEST_NAME}[{self.cell}]" if self.cell else path

    def selects(self, case: Case) -> bool:
        path = (case.model, case.dataset) if case.model else (case.dataset,)
        return path[: len(self.parts)] == self.parts and self.cell in ("", case.cell)

    def case(self) -> Case:
        """The case of a whole id."""
        *model, dataset = self.parts
        difficulty, scenario, attack = self.cell.split("/")
        return Case(dataset, difficulty, scenario, attack, model[0] if model else "")


_NODE_ID = re.compile(
    rf"{NODE_PREFIX}((?:::[^:\[\]]+(?::[^:\[\]]+)*)*?)(?:::{TEST_NAME}(?:\[([^\]]+)\])?)?"
)


def is_node_id(argument: str) -> bool:
    """Whether a command line argument names cells of the built-in suite."""
    return argument.startswith(f"{NODE_PREFIX}::")


def parse_node_id(argument: str) -> NodeId:
    """Read `grb::[model::]dataset[::test_attack[[difficulty/scenario/attack]]]`.

    Raises:
        UsageError: the argument has another form.
    """
    found = _NODE_ID.fullmatch(argument)
    parts = tuple(found[1].split("::")[1:]) if found else ()
    if found is None or len(parts) > 2 or (found[2] is not None and found[2].count("/") != 2):
        raise UsageError(
            f"{argument!r} is no id of a grb case; they look like "
            f"'{NODE_PREFIX}::synthetic-cora::{TEST_NAME}[easy/injection/pgd]'"
        )
    return NodeId(parts, found[2] or "")


def case_of(node_id: str) -> Case | None:
    """The case of a test of the built-in suite; None where other plugins have changed its id.

    What follows the brackets is passed over: pytest-xdist writes `@group` there.
    """
    try:
        case = parse_node_id(node_id[: node_id.rfind("]") + 1]).case()
    except UsageError:
        return None
    known = case.difficulty in DIFFICULTIES and case.scenario in SCENARIOS
    return case if known else None


def node_id_of(case: Case) -> str:
    """Node id of the built-in test of the case."""
    return f"{node_path(case)}::{TEST_NAME}[{case.cell}]"


def node_path(case: Case) -> str:
    """Node id of the module that holds the case: one for each model and dataset."""
    return "::".join(part for part in (NODE_PREFIX, case.model, case.dataset) if part)
