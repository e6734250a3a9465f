"""Ranks in words: lines for people, properties for JUnit, records for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from grb_check.ranking.boards.standing import Neighbour, Standing
from grb_check.ranking.comparison_models import PUBLISHED, RUN
from grb_check.ranking.orders import Ranked
from grb_check.ranking.standings import Comparison, Place

Property = tuple[str, float | int | str]
PREFIX = "grb.rank"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th`, ... `11th`, ... `21st`."""
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else last}"


def rank_of(standing: Standing) -> str:
    """`3 of 17`, as in tables."""
    return f"{standing.rank} of {standing.competitors}"


def place_lines(places: Sequence[Place]) -> list[str]:
    """A line for each model, dataset, difficulty and leaderboard; one where there is no rank."""
    lines = []
    for place in places:
        where = f"{place.group.dataset}/{place.group.difficulty}"
        name = place.name if place.group.several else ""
        if place.why_none and place.seen:
            lines.append(f"no rank{f' of {name}' if name else ''} on {where}: {place.why_none}")
        lines += [_line(each, where, name) for each in place.standings]
    return lines


def sentence(standing: Standing) -> str:
    """`3rd of 17 (zoo), between SGCN+LN 81.2% and R-GCN 80.4% (weighted accuracy 80.9%)`."""
    ours = "; settings GRB's, perturbations ours" if standing.board == PUBLISHED else ""
    all_attacks = standing.attacks + len(standing.missing)
    over = f" over {standing.attacks} of {all_attacks} attacks" if standing.missing else ""
    if standing.missing and standing.board == PUBLISHED:
        over += ", theirs from mean accuracies and so a little too high"
    return (
        f"{ordinal(standing.rank)} of {standing.competitors} ({standing.board}), "
        f"{_between(standing)} (weighted accuracy {standing.figure:.1%}{over}{ours})"
    )


def comparison_lines(comparisons: Sequence[Comparison]) -> list[str]:
    """A line for each dataset and difficulty: the models by weighted accuracy."""
    return [
        f"models on {each.group} by weighted accuracy over {_attacks(each.attacks)}: "
        f"{listed(each.models)}"
        for each in comparisons
        if not each.attack
    ]


def listed(models: Iterable[Ranked]) -> str:
    """`1. name 80.0%, 2. name 70.0%`."""
    return ", ".join(f"{each.rank}. {each.name} {each.figure:.1%}" for each in models)


def case_properties(standings: Sequence[Standing]) -> list[Property]:
    """The rank under one attack; names of further leaderboards stand in the properties' names."""
    properties: list[Property] = []
    for number, standing in enumerate(standings):
        board = f".{standing.board}" if number else ""
        properties += [
            (f"{PREFIX}{board}", standing.rank),
            (f"{PREFIX}_of{board}", standing.competitors),
        ]
        if not number:
            properties.append((f"{PREFIX}_board", standing.board))
        for word, neighbour in (("after", standing.better), ("before", standing.worse)):
            if neighbour is not None:
                properties.append((f"{PREFIX}_{word}{board}", _figure(neighbour)))
    return properties


def suite_properties(places: Sequence[Place], comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Ranks by weighted accuracy, and those of the run's models under each attack."""
    properties = {
        f"{PREFIX}.{standing.board}.{place.group.id}": _in_figures(standing)
        for place in places
        for standing in place.standings
    }
    for each in comparisons:
        name = f"{each.group}/{each.attack}" if each.attack else each.group
        properties[f"{PREFIX}.{RUN}.{name}"] = ", ".join(
            f"{model.rank} {model.name} {model.figure:.4f}" for model in each.models
        )
    return properties


def place_records(places: Sequence[Place]) -> list[dict[str, Any]]:
    """For JSON: one for each leaderboard, or one that says why there is no rank."""
    records = []
    for place in places:
        about = {
            "model": place.name,
            "dataset": place.group.dataset,
            "difficulty": place.group.difficulty,
        }
        if place.why_none:
            records.append({**about, "rank": None, "reason": place.why_none})
        records += [{**about, **standing_record(each)} for each in place.standings]
    return records


def standing_record(standing: Standing) -> dict[str, Any]:
    """Builtin types."""
    record = asdict(standing)
    record["missing"] = list(standing.missing)
    return record


def comparison_records(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """For JSON: the run's models in order, for each dataset, difficulty and attack."""
    return [
        {
            "group": each.group,
            "attack": each.attack,
            "attacks": each.attacks,
            "models": [
                {"rank": model.rank, "name": model.name, "accuracy": model.figure}
                for model in each.models
            ],
        }
        for each in comparisons
    ]


def _line(standing: Standing, where: str, name: str) -> str:
    if standing.board == PUBLISHED:
        return f"where {name or 'this'} would stand on {where}: {sentence(standing)}"
    return f"rank{f' of {name}' if name else ''} on {where}: {sentence(standing)}"


def _between(standing: Standing) -> str:
    better, worse = standing.better, standing.worse
    if better is not None and worse is not None:
        return f"between {_percent(better)} and {_percent(worse)}"
    if better is not None:
        return f"after {_percent(better)}"
    return f"before {_percent(worse)}" if worse is not None else "level with all others"


def _percent(neighbour: Neighbour) -> str:
    return f"{neighbour.name} {neighbour.figure:.1%}"


def _figure(neighbour: Neighbour) -> str:
    return f"{neighbour.name} {neighbour.figure:.4f}"


def _in_figures(standing: Standing) -> str:
    parts = [rank_of(standing), f"{standing.figure:.4f}"]
    if standing.better is not None:
        parts.append(f"after {_figure(standing.better)}")
    if standing.worse is not None:
        parts.append(f"before {_figure(standing.worse)}")
    if standing.missing:
        parts.append(f"over {standing.attacks} of {standing.attacks + len(standing.missing)}")
    return ", ".join(parts)


def _attacks(count: int) -> str:
    return f"{count} attack{'' if count == 1 else 's'}"
