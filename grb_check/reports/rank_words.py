"""Ranks in words: lines for people, properties for JUnit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grb_check.errors import count
from grb_check.files.control_characters import fit
from grb_check.ranking.boards.published import PUBLISHED
from grb_check.ranking.comparison_models import RUN
from grb_check.ranking.orders import Ranked
from grb_check.ranking.rank_plan import RankVerdict
from grb_check.ranking.run_ranks import Ranking
from grb_check.ranking.standing import Neighbour, Place, Standing
from grb_check.reports.record import RanksRecord

Property = tuple[str, float | int | str]
PREFIX = "grb.rank"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `4th`, ... `11th`, ... `21st`."""
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else last}"


def rank_of(standing: Standing) -> str:
    """Return the rank as in tables: `3 of 17`."""
    return f"{standing.rank} of {standing.competitors}"


def sentence(standing: Standing) -> str:
    """Return `3rd of 17 (zoo), between SGCN+LN 81.2% and ... (weighted accuracy 80.9%)`."""
    ours = "; settings GRB's, perturbations ours" if standing.board == PUBLISHED else ""
    all_attacks = standing.attacks + len(standing.missing)
    over = f" over {standing.attacks} of {count(all_attacks, 'attack')}" if standing.missing else ""
    if standing.missing and standing.board == PUBLISHED:
        over += ", theirs from mean accuracies and so a little too high"
    return (
        f"{ordinal(standing.rank)} of {standing.competitors} ({standing.board}), "
        f"{_between(standing)} (weighted accuracy {standing.figure:.1%}{over}{ours})"
    )


def place_line(place: Place, several: bool) -> str:
    """Return the rank of a model on a dataset at a difficulty, or why it is not ranked.

    Args:
        place: of the model.
        several: whether to name the model.
    """
    where = f"{place.dataset}/{place.difficulty}"
    of = f" of {place.model}" if several else ""
    if place.standing is None:
        return fit(f"no rank{of} on {where}: {place.reason}")
    if place.standing.board == PUBLISHED:
        model = place.model if several else "this"
        return fit(f"where {model} would stand on {where}: {sentence(place.standing)}")
    return fit(f"rank{of} on {where}: {sentence(place.standing)}")


def comparison_line(comparison: Ranking) -> str:
    """Return the models of the run by weighted accuracy, the best first."""
    models = [f"{each.rank}. {each.name} {each.figure:.1%}" for each in comparison.models]
    return (
        f"models on {comparison.group} by weighted accuracy over "
        f"{count(comparison.attacks, 'attack')}: {', '.join(models)}"
    )


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
    """Return the rank under one attack; further leaderboards are named in the properties' names."""
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


def suite_properties(ranks: RanksRecord, comparisons: Iterable[Ranking]) -> dict[str, str]:
    """Return ranks by weighted accuracy, and those of the run's models under each attack."""
    properties = {
        f"{PREFIX}.{place.standing.board}.{place.group}": _in_figures(place.standing)
        for place in ranks.standings
        if place.standing is not None
    }
    for each in comparisons:
        name = f"{each.group}/{each.attack}" if each.attack else each.group
        properties[f"{PREFIX}.{RUN}.{name}"] = ", ".join(
            f"{model.rank} {model.name} {model.figure:.4f}" for model in each.models
        )
    return properties


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
