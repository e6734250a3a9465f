"""The matrix: which dataset x difficulty x attack cases a run has, and what they are called.

Nothing here imports torch: collecting the cases costs nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from grb_check.attacks import attack_names
from grb_check.errors import UsageError

DIFFICULTIES: Final = ("easy", "medium", "hard", "full")
SCENARIOS: Final = ("injection", "modification")
NODE_PREFIX: Final = "grb"
TEST_NAME: Final = "test_attack"

Name = TypeVar("Name", bound=str)


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
    def order(self) -> tuple[str, str, int, int]:
        """Sorts cases as reports show them."""
        pair = (self.scenario, self.attack)
        return (
            self.model,
            self.dataset,
            DIFFICULTIES.index(self.difficulty),
            attack_names().index(pair),
        )

    def matches(self, pattern: str) -> bool:
        """Whether a shell pattern matches the id, with or without its `model@`."""
        return fnmatchcase(self.id, pattern) or fnmatchcase(f"{self.dataset}/{self.cell}", pattern)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What runs where the user names nothing else."""

    datasets: tuple[str, ...]
    difficulties: tuple[str, ...]
    scenarios: tuple[str, ...]
    repeats: int


SUITES: Final = {
    # A minute or two on a laptop; `full` repeats what the three levels show.
    "smoke": Suite(
        datasets=("synthetic-cora",),
        difficulties=("easy", "medium", "hard"),
        scenarios=SCENARIOS,
        repeats=3,
    ),
    "standard": Suite(
        datasets=("synthetic-cora",),
        difficulties=DIFFICULTIES,
        scenarios=SCENARIOS,
        repeats=3,
    ),
    # The grid of the GRB leaderboards: injection only, each attack repeated ten times.
    "paper": Suite(
        datasets=("grb-cora", "grb-citeseer", "grb-flickr", "grb-reddit", "grb-aminer"),
        difficulties=DIFFICULTIES,
        scenarios=("injection",),
        repeats=10,
    ),
}


def choose(what: str, given: str, allowed: Sequence[Name]) -> Name:
    """`given` if it is allowed.

    Raises:
        UsageError: names the value, the nearest spelling and all allowed values.
    """
    for name in allowed:
        if name == given:
            return name
    near = difflib.get_close_matches(given, allowed, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UsageError(f"unknown {what} {given!r}{hint}; allowed: {', '.join(allowed)}")


def check_repeats(name: str, value: object) -> int:
    """A number of repeats, given as number or text.

    Raises:
        UsageError: it is not a whole number of at least 1.
    """
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{name}: {value!r} is no number of repeats; give 1 or more")
    return int(text)


def select_attacks(
    names: Iterable[str], scenarios: Sequence[str] = SCENARIOS
) -> tuple[tuple[str, str], ...]:
    """The (scenario, attack) pairs that the names stand for, in the catalogue's order.

    Args:
        names: attack names, each with or without its scenario: `pgd`, `injection/pgd`; empty
            means all.
        scenarios: those to keep.

    Raises:
        UsageError: a name is unknown, or nothing is left.
    """
    every = attack_names()
    spellings = [*dict.fromkeys(name for _, name in every), *("/".join(pair) for pair in every)]
    wanted = {choose("attack", name, spellings) for name in names}
    kept = tuple(
        pair
        for pair in every
        if pair[0] in scenarios and (not wanted or {pair[1], "/".join(pair)} & wanted)
    )
    if not kept:
        raise UsageError(
            f"attack {', '.join(sorted(wanted)) or 'any'} does not exist in scenario "
            f"{', '.join(scenarios)}. Allowed: {', '.join('/'.join(pair) for pair in every)}"
        )
    return kept


def expand(
    models: Sequence[str],
    datasets: Sequence[str],
    difficulties: Sequence[str],
    attacks: Sequence[tuple[str, str]],
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

    Raises:
        UsageError: a pattern matches none of the cases.
    """
    for pattern in patterns:
        if not any(case.matches(pattern) for case in cases):
            near = difflib.get_close_matches(pattern, [case.id for case in cases], n=1, cutoff=0.3)
            example = near[0] if near else cases[0].id if cases else "none"
            raise UsageError(
                f"case pattern {pattern!r} matches none of the {len(cases)} selected cases; "
                f"ids look like {example!r} and shell wildcards are allowed"
            )
    return [case for case in cases if not patterns or any(map(case.matches, patterns))]


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


def node_path(case: Case) -> str:
    """Node id of the module that holds the case: one for each model and dataset."""
    return "::".join(part for part in (NODE_PREFIX, case.model, case.dataset) if part)
