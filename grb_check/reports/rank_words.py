"""Ranks on leaderboards, in words and as properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.ranking.boards.published_board import PUBLISHED
from grb_check.ranking.orders import RankedEntry
from grb_check.ranking.ranks import Standing


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


def standing_line(standing: Standing) -> str:
    """Return the rank of a model by weighted accuracy."""
    where = f"{standing.dataset}/{standing.difficulty}"
    if standing.board == PUBLISHED:
        model = standing.model if standing.label else "this"
        return fit(f"where {model} would stand on {where}: {sentence(standing)}")
    of = f" of {standing.model}" if standing.label else ""
    return fit(f"rank{of} on {where}: {sentence(standing)}")


def comparison_lines(comparisons: Mapping[str, Sequence[RankedEntry]]) -> list[str]:
    """Return the models of the run by weighted accuracy, one line for each difficulty."""
    lines = []
    for group, models in comparisons.items():
        attacks = sum(comparison.startswith(f"{group}/") for comparison in comparisons)
        if attacks:
            over = count(attacks, "attack")
            lines.append(f"models on {group} by weighted accuracy over {over}: {listed(models)}")
    return lines


def listed(models: Iterable[RankedEntry]) -> str:
    """Return `1. name 80.0%, 2. name 70.0%`."""
    return ", ".join(f"{model.rank}. {model.name} {model.figure:.1%}" for model in models)


def _between(standing: Standing) -> str:
    better, worse = standing.better, standing.worse
    if better is not None and worse is not None:
        return f"between {_percent(better)} and {_percent(worse)}"
    if better is not None:
        return f"after {_percent(better)}"
    return f"before {_percent(worse)}" if worse is not None else "level with all others"


def _percent(neighbour: RankedEntry) -> str:
    return f"{neighbour.name} {neighbour.figure:.1%}"


def neighbour_text(neighbour: RankedEntry) -> str:
    return f"{neighbour.name} {neighbour.figure:.4f}"


def standing_in_figures(standing: Standing) -> str:
    parts = [rank_of(standing), f"{standing.figure:.4f}"]
    if standing.better is not None:
        parts.append(f"after {neighbour_text(standing.better)}")
    if standing.worse is not None:
        parts.append(f"before {neighbour_text(standing.worse)}")
    if standing.missing:
        parts.append(f"over {standing.attacks} of {standing.attacks + len(standing.missing)}")
    return ", ".join(parts)
