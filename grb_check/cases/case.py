"""Cases: dataset x difficulty x attack, and which of them a run has.

Nothing here imports torch: collecting cases costs nothing.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from grb_check.attacks.names import (
    WORST,
    base_name,
    split_budget,
    split_local_budget,
    with_budget,
    without_budgets,
)
from grb_check.attacks.registry import Pair, attack_names, canonical_name, is_targeted, tagged
from grb_check.attacks.scenarios import EVASION, POISONING, SCENARIOS
from grb_check.errors import UsageError, count


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

    Built-in attacks that can are tagged `graphs`; their `worst` can too. A user's attack receives
    the budgets of the graphs, and is verified against them. Local budgets are for nodes of a single
    graph. Poisoning is of nodes: a set of graphs is trained on graphs that no attack is shown.
    """
    scenario, name = pair
    if scenario == POISONING or split_local_budget(name)[1] is not None:
        return False
    plain = (scenario, base_name(name))
    return plain not in attack_names() or plain in tagged("graphs")


def whole_number(given: object, least: int, most: int) -> int | None:
    """Return an integer, given as a number or as decimal ASCII digits; None if it is not in range.

    Args:
        given: by the user; True is no number.
        least: the smallest that is allowed, not negative.
        most: the largest that is allowed.
    """
    text = "" if isinstance(given, bool) else str(given).strip()
    number = int(text) if re.fullmatch("[0-9]{1,18}", text) else -1
    return number if least <= number <= most else None


DIFFICULTIES: Final = ("easy", "medium", "hard", "full")
MOST_REPEATS: Final = 10_000
WHOLE: Final = "full"  # the only difficulty of a set of graphs


@dataclass(frozen=True, order=True)
class Case:
    """One dataset x difficulty x attack, and the model's label if a run has several models.

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
        """Return the part in the brackets of the node id."""
        return f"{self.difficulty}/{self.scenario}/{self.attack}"

    @property
    def id(self) -> str:
        """Return `[model@]dataset/difficulty/scenario/attack`."""
        prefix = f"{self.model}@" if self.model else ""
        return f"{prefix}{self.dataset}/{self.cell}"

    @property
    def order(self) -> tuple[str, str, int, tuple[int, int, str, float]]:
        """Return the key that sorts cases as reports show them."""
        level = DIFFICULTIES.index(self.difficulty)
        return (self.model, self.dataset, level, attack_order((self.scenario, self.attack)))

    def matches(self, pattern: str) -> bool:
        """Whether a shell pattern matches the id, with or without its `model@`."""
        return fnmatchcase(self.id, pattern) or fnmatchcase(f"{self.dataset}/{self.cell}", pattern)

    def fits(self, pattern: str) -> bool:
        """Whether a pattern matches the case, or the case without its budgets."""
        plain = replace(self, attack=without_budgets(self.attack))
        return self.matches(pattern) or plain.matches(pattern)


def check_on_graphs(case: Case) -> None:
    """Refuse cases that a set of graphs cannot have.

    Raises:
        UsageError: an attack on a single graph, or a difficulty that graphs do not have.
    """
    if not on_graphs((case.scenario, case.attack)):
        worst = [(scenario, WORST) for scenario in EVASION]
        allowed = ", ".join("/".join(pair) for pair in (*tagged("graphs"), *worst))
        raise UsageError(
            f"{case.dataset} is a set of graphs, which {case.scenario}/{case.attack} cannot "
            f"attack; allowed: {allowed}"
        )
    if case.difficulty != WHOLE:
        raise UsageError(
            f"{case.dataset} is a set of graphs, which does not have difficulty "
            f"{case.difficulty!r}; allowed: {WHOLE}"
        )


def check_repeats(name: str, value: object) -> int:
    """Return a number of repeats, given as number or text.

    Raises:
        UsageError: it is not an integer from 1 to `MOST_REPEATS`.
    """
    repeats = whole_number(value, 1, MOST_REPEATS)
    if repeats is None:
        raise UsageError(
            f"{name}: {reprlib.repr(value)} is not a number of repeats; give a whole number from 1 "
            f"to {MOST_REPEATS:,}"
        )
    return repeats


def expand(
    models: Sequence[str],
    datasets: Sequence[str],
    difficulties: Sequence[str],
    attacks: Sequence[Pair],
) -> list[Case]:
    """Return all cases, ordered by model, dataset, difficulty, attack."""
    return [
        Case(dataset, difficulty, scenario, attack, model)
        for model in models
        for dataset in datasets
        for difficulty in difficulties
        for scenario, attack in attacks
    ]


def by_model_and_dataset(cases: Iterable[Case]) -> list[tuple[Case, ...]]:
    """Return the cases of each model on each dataset, in the order of the first of each."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.model, case.dataset), []).append(case)
    return [*map(tuple, groups.values())]


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
    """Return the cases that at least one pattern matches; all if there is no pattern.

    A pattern that matches a case without its budget keeps it at every budget.

    Raises:
        UsageError: a pattern matches none of the cases.
    """
    for pattern in patterns:
        check_match("case", pattern, cases)
    return [
        case for case in cases if not patterns or any(case.fits(pattern) for pattern in patterns)
    ]


def check_match(what: str, pattern: str, cases: Sequence[Case]) -> None:
    """Refuse a pattern that matches none of the cases.

    Args:
        what: name of the pattern in the message.
        pattern: of case ids.
        cases: that are selected.

    Raises:
        UsageError: names the pattern and the id that is most similar to it.
    """
    if not any(case.fits(pattern) for case in cases):
        near = difflib.get_close_matches(pattern, [case.id for case in cases], n=1, cutoff=0.3)
        example = near[0] if near else cases[0].id if cases else "none"
        raise UsageError(
            f"{what} pattern {pattern!r} matches none of the {count(len(cases), 'selected case')}; "
            f"ids look like {example!r} and shell wildcards are allowed"
        )


NODE_PREFIX: Final = "grb"
TEST_NAME: Final = "test_attack"


@dataclass(frozen=True)
class NodeId:
    """A node id of the built-in suite, or the beginning of one."""

    parts: tuple[str, ...]  # one or two of model, dataset
    cell: str = ""
    test: str = ""  # name of the test; empty for all tests

    def __str__(self) -> str:
        path = "::".join((NODE_PREFIX, *self.parts))
        return f"{path}::{self.test}[{self.cell}]" if self.cell else path

    def selects(self, case: Case) -> bool:
        """Whether the node id is that of the case, or of its module."""
        path = (case.model, case.dataset) if case.model else (case.dataset,)
        return path[: len(self.parts)] == self.parts and self.cell in ("", case.cell)

    def case(self) -> Case:
        """Return the case of a complete id."""
        *model, dataset = self.parts
        difficulty, scenario, attack = self.cell.split("/")
        return Case(dataset, difficulty, scenario, attack, model[0] if model else "")


_NODE_ID = re.compile(
    rf"{NODE_PREFIX}((?:::[^:\[\]]+(?::[^:\[\]]+)*)*?)"
    rf"(?:::({TEST_NAME})(?:\[([^\]]+)\])?)?"
)


def is_node_id(argument: str) -> bool:
    """Whether a command line argument names cells of the built-in suite."""
    return argument.startswith(f"{NODE_PREFIX}::")


def parse_node_id(argument: str) -> NodeId:
    """Read `grb::[model::]dataset[::test_attack[[difficulty/scenario/attack]]]`.

    Raises:
        UsageError: the argument has another form.
    """
    match = _NODE_ID.fullmatch(argument)
    parts = tuple(match[1].split("::")[1:]) if match else ()
    test, cell = (match[2] or "", match[3] or "") if match else ("", "")
    if match is None or len(parts) > 2 or (cell and cell.count("/") != 2):
        raise UsageError(
            f"{argument!r} is not the id of a grb case; ids look like "
            f"'{NODE_PREFIX}::synthetic-cora::{TEST_NAME}[easy/injection/pgd]'"
        )
    return NodeId(parts, cell, test)


def case_of(node_id: str) -> Case | None:
    """Return the case of a test of the built-in suite; None if another plugin changed its id.

    Text after the brackets is ignored: pytest-xdist writes `@group` there.
    """
    try:
        parsed = parse_node_id(node_id[: node_id.rfind("]") + 1])
    except UsageError:
        return None
    if parsed.test != TEST_NAME:
        return None
    case = parsed.case()
    known = case.difficulty in DIFFICULTIES and case.scenario in SCENARIOS
    return case if known else None


def node_id_of(case: Case) -> str:
    """Return the node id of the built-in test of a case."""
    return f"{node_path(case)}::{TEST_NAME}[{case.cell}]"


def node_path(case: Case) -> str:
    """Return the node id of the module of a case: one for each model and dataset."""
    return "::".join(part for part in (NODE_PREFIX, case.model, case.dataset) if part)
