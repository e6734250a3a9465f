"""Which cases a run has: those of its options that its patterns keep."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from grb_check.attacks.names import (
    WORST,
)
from grb_check.attacks.registry import Pair
from grb_check.attacks.scenarios import EVASION
from grb_check.cases.attack_pairs import attacks_on_graphs, on_graphs
from grb_check.cases.case import WHOLE, Case
from grb_check.errors import UsageError, count


def check_on_graphs(case: Case) -> None:
    """Refuse cases that a set of graphs cannot have.

    Raises:
        UsageError: an attack on a single graph, or a difficulty that graphs do not have.
    """
    if not on_graphs((case.scenario, case.attack)):
        worst = [(scenario, WORST) for scenario in EVASION]
        allowed = ", ".join("/".join(pair) for pair in (*attacks_on_graphs(), *worst))
        raise UsageError(
            f"{case.dataset} is a set of graphs, which {case.scenario}/{case.attack} cannot "
            f"attack; allowed: {allowed} (one graph of nodes is a single Data, in no list or dict)"
        )
    if case.difficulty != WHOLE:
        raise UsageError(
            f"{case.dataset} is a set of graphs, which does not have difficulty "
            f"{case.difficulty!r}; allowed: {WHOLE}"
        )


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
