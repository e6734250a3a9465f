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

from grb_check.attacks.names import WORST, without_budgets
from grb_check.attacks.registry import Pair, tagged
from grb_check.cases.attack_pairs import SCENARIOS, attack_order, on_graphs
from grb_check.errors import UsageError, count


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
        worst = [(scenario, WORST) for scenario in SCENARIOS]
        allowed = ", ".join("/".join(each) for each in (*tagged("graphs"), *worst))
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
    return [case for case in cases if not patterns or any(case.fits(each) for each in patterns)]


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
