"""The matrix: which dataset x difficulty x attack cases a run has, and what they are called.

Nothing here imports torch: collecting the cases costs nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from grb_check.attacks import Pair, attack_names
from grb_check.attacks.naming import WORST, base_name, split_budget, with_budget
from grb_check.errors import UsageError

DIFFICULTIES: Final = ("easy", "medium", "hard", "full")
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


def worst_members(worst: Pair, selected: Sequence[Pair]) -> tuple[str, ...]:
    """Names of the attacks of which `worst` takes the strongest, all with its own budget.

    Args:
        worst: scenario and name, with or without a budget.
        selected: the attacks of the run, as the user selected them. Where that selection has no
            `worst` of the scenario itself, or nothing else of it, the members are those of the
            suite `standard`.
    """
    scenario, name = worst
    budget = split_budget(name)[1]
    chosen = any(kind == scenario and base_name(other) == WORST for kind, other in selected)
    for attacks in (selected if chosen else (), SUITES["standard"].attacks):
        others = {
            (scenario, split_budget(other)[0])
            for kind, other in attacks
            if kind == scenario and base_name(other) != WORST
        }
        if others:
            break
    return tuple(with_budget(other, budget) for _, other in sorted(others, key=attack_order))


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What runs where the user names nothing else."""

    datasets: tuple[str, ...]
    difficulties: tuple[str, ...]
    attacks: tuple[Pair, ...]
    repeats: int


SUITES: Final = {
    # A minute or two on a laptop; `full` repeats what the three levels show.
    "smoke": Suite(
        datasets=("synthetic-cora",),
        difficulties=("easy", "medium", "hard"),
        attacks=(
            ("injection", "rnd"),
            ("injection", "fgsm"),
            ("injection", "pgd"),
            ("modification", "rnd"),
            ("modification", "dice"),
        ),
        repeats=3,
    ),
    "standard": Suite(
        datasets=("synthetic-cora",),
        difficulties=DIFFICULTIES,
        attacks=(
            ("injection", "rnd"),
            ("injection", "fgsm"),
            ("injection", "pgd"),
            ("injection", "speit"),
            ("injection", "tdgia"),
            ("injection", "agia"),
            ("injection", WORST),
            ("modification", "rnd"),
            ("modification", "dice"),
            ("modification", "flip"),
            ("modification", "nea"),
            ("modification", "stack"),
            ("modification", "fga"),
            ("modification", "pgd"),
            ("modification", "random-flips"),
            ("modification", "pgd-topology"),
            ("modification", "prbcd"),
            ("modification", "grbcd"),
            ("modification", WORST),
        ),
        repeats=3,
    ),
    # The grid of the GRB leaderboards: injection only, each attack repeated ten times.
    "paper": Suite(
        datasets=("grb-cora", "grb-citeseer", "grb-flickr", "grb-reddit", "grb-aminer"),
        difficulties=DIFFICULTIES,
        attacks=(
            ("injection", "rnd"),
            ("injection", "fgsm"),
            ("injection", "pgd"),
            ("injection", "speit"),
            ("injection", "tdgia"),
        ),
        repeats=10,
    ),
}


def check_repeats(name: str, value: object) -> int:
    """A number of repeats, given as number or text.

    Raises:
        UsageError: it is not a whole number of at least 1.
    """
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{name}: {value!r} is no number of repeats; give 1 or more")
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


def node_path(case: Case) -> str:
    """Node id of the module that holds the case: one for each model and dataset."""
    return "::".join(part for part in (NODE_PREFIX, case.model, case.dataset) if part)
