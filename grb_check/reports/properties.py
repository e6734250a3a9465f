"""Figures for pytest's JUnit report: properties of a case and of the suite.

Plain `float`, `int` and `str` only: a numpy scalar among `user_properties` makes pytest-xdist end
green without having run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Final

from grb_check.attacks.names import with_budget
from grb_check.cases.outcomes import Outcome
from grb_check.cases.target_weights import ACCURACY
from grb_check.cases.verdicts import Comparison, Verdict
from grb_check.ranking.budget_curves import Curve
from grb_check.ranking.comparison_models import RUN
from grb_check.ranking.lowest import Delta, Lowest
from grb_check.ranking.orders import RankedEntry
from grb_check.ranking.ranks import Standing
from grb_check.reports.audit import audit_conclusions
from grb_check.reports.conclusion import conclusions
from grb_check.reports.digest import Digest
from grb_check.reports.lowest_words import REFERENCE, gap_lines, groups_text
from grb_check.reports.rank_words import neighbour_text, standing_in_figures
from grb_check.reports.record import RunRecord

PREFIX: Final = "grb."  # of all names
Property = tuple[str, float | int | str]

RANK: Final = "grb.rank"


def case_properties(outcome: Outcome) -> list[Property]:
    """Return the figures of one case, under `grb.*`."""
    properties: list[Property] = [
        ("grb.case", outcome.case.id),
        ("grb.model", outcome.model),
        ("grb.dataset", outcome.case.dataset),
        ("grb.dataset_origin", outcome.origin),
        ("grb.difficulty", outcome.case.difficulty),
        ("grb.scenario", outcome.case.scenario),
        ("grb.attack", outcome.case.attack),
        ("grb.targets", outcome.targets),
        ("grb.repeats", len(outcome.repeats)),
        ("grb.clean_accuracy", round(outcome.clean, 6)),
        ("grb.attacked_accuracy", round(outcome.attacked, 6)),
        ("grb.relative_drop", round(outcome.drop, 6)),
        ("grb.relative_drop_deviation", round(outcome.drop_deviation, 6)),
        ("grb.reference_drop", round(outcome.reference_drop, 6)),
        ("grb.seconds", round(outcome.seconds, 3)),
        ("grb.method", ", ".join(dict.fromkeys(repeat.method for repeat in outcome.repeats))),
    ]
    if outcome.metric != ACCURACY:
        properties.append(("grb.metric", outcome.metric))
    if outcome.target_weights:
        clean, attacked = outcome.accuracy
        properties.append(("grb.plain_clean_accuracy", round(clean, 6)))
        properties.append(("grb.plain_attacked_accuracy", round(attacked, 6)))
    for name in ("roc_auc", "average_precision", "false_alarms", "other_recall"):
        sides = outcome.mean_ranking(attrgetter(name))
        properties += [
            (f"grb.{when}_{name}", round(side, 6))
            for when, side in zip(("clean", "attacked"), sides, strict=False)
        ]
    if outcome.budget is not None:
        properties.append(("grb.budget", outcome.budget))
    if outcome.per_target is not None:
        properties.append(("grb.per_target_accuracy", round(outcome.per_target, 6)))
        members = dict.fromkeys(repeat.member for repeat in outcome.repeats)
        properties.append(("grb.worst_attack", ", ".join(members)))
    properties += [
        ("grb.diagnostic", f"{finding.name}: {finding.text}") for finding in outcome.findings
    ]
    properties += [("grb.change", text) for text in outcome.changes]
    properties += [("grb.warning", text) for text in outcome.warnings]
    return properties


def verdict_properties(verdict: Verdict) -> list[Property]:
    """Return the verdict of the gate on one case, with the figures behind it."""
    properties: list[Property] = [
        ("grb.clean_floor", round(verdict.floor, 6)),
        ("grb.rule", verdict.rule),
        ("grb.verdict", verdict.result),
        ("grb.interval_method", verdict.method),
        ("grb.borderline", "yes" if verdict.borderline else "no"),
    ]
    if verdict.limit is not None:
        properties.append(("grb.limit", round(verdict.limit, 6)))
    if verdict.interval is not None:
        low, high = verdict.interval
        properties += [("grb.interval_low", round(low, 6)), ("grb.interval_high", round(high, 6))]
    if verdict.comparison is not None:
        properties += comparison_properties(verdict.comparison)
    return properties


def comparison_properties(comparison: Comparison, reference: str = "baseline") -> list[Property]:
    """Return a comparison, under `grb.baseline.*` or `grb.clean.*`, without empty figures."""
    figures = asdict(comparison) | {"cases": ", ".join(case.case for case in comparison.cases)}
    if (collapses := figures.pop("collapses")) is not None:
        figures |= {f"collapses_{name}": value for name, value in collapses.items()}
    return [
        (f"grb.{reference}.{name}", round(value, 6) if isinstance(value, float) else value)
        for name, value in figures.items()
        if value is not None and value != "" and name != "text"
    ]


def suite_properties(digest: Digest) -> dict[str, str]:
    """Return the properties of the whole run: models, settings, orders, ranks and curves."""
    record, result = digest.record, digest.summary
    properties = {
        "grb.models": ", ".join(
            f"{model.label}={model.target}" for model in record.settings.models
        ),
        "grb.suite": record.settings.suite,
        "grb.repeats": str(record.settings.repeats),
    }
    properties |= note_properties(record)
    for group, attacks in result.attacks.items():
        properties[f"grb.attack_rank.{group}"] = ranked(attacks)
    for name, curve in digest.named_curves:
        properties[f"grb.curve.{name}"] = curve_points(curve)
    properties |= lowest_properties(result.lowest, result.delta)
    properties |= {f"grb.conclusion.{n}": text for n, text in enumerate(conclusions(record))}
    properties |= {f"grb.level.{n}": text for n, (text, _) in enumerate(digest.leads)}
    audits = audit_conclusions(record)
    properties |= {f"grb.audit.{n}": conclusion.text for n, conclusion in enumerate(audits)}
    for suffix, models in (
        ("", result.models),
        ("_black_box", result.models_black_box),
        ("_adaptive", result.models_adaptive),
    ):
        if len(models) > 1:
            properties[f"grb.model_rank{suffix}"] = ranked(models)
    return properties | ranks_of_run(record.ranks.standings, result.comparisons)


def note_properties(record: RunRecord) -> dict[str, str]:
    """Return the notes on the whole run as properties."""
    return {f"grb.note.{number}": text for number, text in enumerate(record.notes, 1)}


def ranked(order: Sequence[RankedEntry]) -> str:
    """Return `1 injection/pgd 0.4200, 2 injection/rnd 0.0500`."""
    return ", ".join(f"{entry.rank} {entry.name} {entry.figure:.4f}" for entry in order)


def curve_points(curve: Curve) -> str:
    """Return `0.01 0.1000, 0.05 0.4200`: each budget with its drop."""
    return ", ".join(f"{point.budget:g} {point.drop:.4f}" for point in curve.points)


def rank_properties(standings: Sequence[Standing]) -> list[Property]:
    """Return the rank under one attack; further leaderboards are named in the properties' names."""
    properties: list[Property] = []
    for number, standing in enumerate(standings):
        board = f".{standing.board}" if number else ""
        properties += [
            (f"{RANK}{board}", standing.rank),
            (f"{RANK}_of{board}", standing.competitors),
        ]
        if not number:
            properties.append((f"{RANK}_board", standing.board))
        for word, neighbour in (("after", standing.better), ("before", standing.worse)):
            if neighbour is not None:
                properties.append((f"{RANK}_{word}{board}", neighbour_text(neighbour)))
    return properties


def ranks_of_run(
    standings: Iterable[Standing], comparisons: Mapping[str, Sequence[RankedEntry]]
) -> dict[str, str]:
    """Return ranks by weighted accuracy, and those of the run's models under each attack."""
    properties = {
        f"{RANK}.{standing.board}.{standing.group}": standing_in_figures(standing)
        for standing in standings
    }
    for name, models in comparisons.items():
        properties[f"{RANK}.{RUN}.{name}"] = ", ".join(
            f"{model.rank} {model.name} {model.figure:.4f}" for model in models
        )
    return properties


def lowest_properties(lows: Sequence[Lowest], differences: Sequence[Delta]) -> dict[str, str]:
    """Return JUnit's properties of the suite."""
    properties = {
        f"{PREFIX}lowest_{name}.{low.id}": f"{result.attack} {result.accuracy.mean:.4f}, "
        f"drop {result.drop.mean:.4f}"
        for low in lows
        for name, result in (("black_box", low.black_box), ("adaptive", low.adaptive))
        if result is not None
    }
    for number, text in enumerate(gap_lines(lows)):
        properties[f"grb.gap.{number}"] = text
    for difference in differences:
        if difference.value is not None:
            name = f"{PREFIX}delta{f'.{difference.label}' if difference.label else ''}"
            name = with_budget(name, difference.budget)
            properties[name] = (
                f"{difference.value:.4f} to {REFERENCE} over {groups_text(difference.groups)}"
            )
    return properties
