"""Ranks in words: lines for people, properties for JUnit, records for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from grb_check.ranking.boards.published import PUBLISHED
from grb_check.ranking.comparison_models import RUN
from grb_check.ranking.orders import Ranked
from grb_check.ranking.rank_plan import RankVerdict
from grb_check.ranking.run_ranks import GroupStandings, Ranking
from grb_check.ranking.standing import Neighbour, Standing

Property = tuple[str, float | int | str]
PREFIX = "grb.rank"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `4th`, ... `11th`, ... `21st`."""
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else last}"


def rank_of(standing: Standing) -> str:
    """Return the rank as in tables: `3 of 17`."""
    return f"{standing.rank} of {standing.competitors}"


def standing_lines(groups: Sequence[GroupStandings]) -> list[str]:
    """Return a line for each model, dataset, difficulty and leaderboard, or why there is none."""
    lines = []
    for each in groups:
        where = f"{each.group.dataset}/{each.group.difficulty}"
        name = each.name if each.group.several else ""
        if each.unranked and each.seen:
            lines.append(f"no rank{f' of {name}' if name else ''} on {where}: {each.unranked}")
        lines += [_line(standing, where, name) for standing in each.standings]
    return lines


def sentence(standing: Standing) -> str:
    """Return `3rd of 17 (zoo), between SGCN+LN 81.2% and ... (weighted accuracy 80.9%)`."""
    ours = "; settings GRB's, perturbations ours" if standing.board == PUBLISHED else ""
    all_attacks = standing.attacks + len(standing.missing)
    over = f" over {standing.attacks} of {all_attacks} attacks" if standing.missing else ""
    if standing.missing and standing.board == PUBLISHED:
        over += ", theirs from mean accuracies and so a little too high"
    return (
        f"{ordinal(standing.rank)} of {standing.competitors} ({standing.board}), "
        f"{_between(standing)} (weighted accuracy {standing.figure:.1%}{over}{ours})"
    )


def ranking_lines(rankings: Sequence[Ranking]) -> list[str]:
    """Return a line for each dataset and difficulty: the models by weighted accuracy."""
    return [
        f"models on {each.group} by weighted accuracy over {_attacks(each.attacks)}: "
        f"{listed(each.models)}"
        for each in rankings
        if not each.attack
    ]


def verdict_message(verdict: RankVerdict) -> str:
    """Return the rank and its limit in one line, or why there is no rank or no verdict."""
    if verdict.passed is None:
        return f"rank on {verdict.group.id} not judged: {verdict.reason}"
    limit = f"limit {verdict.limit.rank} by {verdict.limit.pattern!r}"
    if verdict.rank is None:
        return f"no rank: {verdict.reason}; {limit}. {verdict.group.id}"
    ranks = "; ".join(map(sentence, verdict.standings))
    if verdict.ranking is not None:
        ranks = f"models by weighted accuracy: {listed(verdict.ranking.models)}"
    sign = "<=" if verdict.passed else ">"
    return f"rank {verdict.rank} {sign} {limit}: {ranks}. {verdict.group.id}"


def listed(models: Iterable[Ranked]) -> str:
    """Return `1. name 80.0%, 2. name 70.0%`."""
    return ", ".join(f"{each.rank}. {each.name} {each.figure:.1%}" for each in models)


def case_properties(standings: Sequence[Standing]) -> list[Property]:
    """Return the ranks under one attack; names of properties contain further leaderboards."""
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


def suite_properties(
    groups: Sequence[GroupStandings], rankings: Sequence[Ranking]
) -> dict[str, str]:
    """Return ranks by weighted accuracy, and those of the run's models under each attack."""
    properties = {
        f"{PREFIX}.{standing.board}.{each.group.id}": _in_figures(standing)
        for each in groups
        for standing in each.standings
    }
    for ranking in rankings:
        name = f"{ranking.group}/{ranking.attack}" if ranking.attack else ranking.group
        properties[f"{PREFIX}.{RUN}.{name}"] = ", ".join(
            f"{model.rank} {model.name} {model.figure:.4f}" for model in ranking.models
        )
    return properties


def group_records(groups: Sequence[GroupStandings]) -> list[dict[str, Any]]:
    """Return a record for each leaderboard, or one that says why there is no rank."""
    records = []
    for each in groups:
        about = {
            "model": each.name,
            "dataset": each.group.dataset,
            "difficulty": each.group.difficulty,
        }
        if each.unranked:
            records.append({**about, "rank": None, "reason": each.unranked})
        records += [{**about, **standing_record(standing)} for standing in each.standings]
    return records


def verdict_record(verdict: RankVerdict) -> dict[str, Any]:
    """Return builtin types."""
    return {
        "group": verdict.group.id,
        "limit": verdict.limit.rank,
        "passed": verdict.passed,
        "message": verdict_message(verdict),
        "rank": verdict.rank,
    }


def standing_record(standing: Standing) -> dict[str, Any]:
    """Return builtin types."""
    record = asdict(standing)
    record["missing"] = list(standing.missing)
    return record


def ranking_records(rankings: Sequence[Ranking]) -> list[dict[str, Any]]:
    """Return the run's models in order, for each dataset, difficulty and attack."""
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
        for each in rankings
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
