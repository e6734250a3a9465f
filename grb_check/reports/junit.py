"""Figures for pytest's JUnit report: properties of a case and of the suite.

Plain `float`, `int` and `str` only: a numpy scalar among `user_properties` makes pytest-xdist end
green without having run anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from grb_check.cases.expected_cases import Row
from grb_check.cases.outcomes import Outcome
from grb_check.gate.baselines.comparison import Comparison
from grb_check.gate.limits import Verdict
from grb_check.ranking.budget_curves import named_curves
from grb_check.ranking.lowest import deltas, lowest
from grb_check.ranking.orders import Ranked, by_effect, by_robustness
from grb_check.ranking.run_ranks import Ranks
from grb_check.reports import lowest_words, rank_words
from grb_check.settings.settings import Settings

Property = tuple[str, float | int | str]


def case_properties(outcome: Outcome) -> list[Property]:
    """The figures of one case, under `grb.*`."""
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
        ("grb.method", ", ".join(dict.fromkeys(each.method for each in outcome.repeats))),
    ]
    if outcome.budget is not None:
        properties.append(("grb.budget", outcome.budget))
    if outcome.per_target is not None:
        properties.append(("grb.per_target_accuracy", round(outcome.per_target, 6)))
        members = dict.fromkeys(each.member for each in outcome.repeats)
        properties.append(("grb.worst_attack", ", ".join(members)))
    properties += [("grb.diagnostic", f"{each.name}: {each.text}") for each in outcome.findings]
    properties += [("grb.warning", text) for text in outcome.warnings]
    return properties


def verdict_properties(verdict: Verdict) -> list[Property]:
    """What the gate said of one case, and everything that it rests on."""
    properties: list[Property] = [
        ("grb.clean_floor", round(verdict.floor, 6)),
        ("grb.rule", verdict.rule),
        ("grb.verdict", "pass" if verdict.passed else "fail"),
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


def comparison_properties(comparison: Comparison) -> list[Property]:
    """What a baseline said, under `grb.baseline.*`; what was not computed is left out."""
    figures = asdict(comparison)
    return [
        (f"grb.baseline.{name}", round(value, 6) if isinstance(value, float) else value)
        for name, value in figures.items()
        if value is not None and value != "" and name != "text"
    ]


def suite_properties(settings: Settings, rows: Sequence[Row], ranks: Ranks) -> dict[str, str]:
    """What holds for the whole run: model, settings, ranks of attacks and of models."""
    properties = {
        "grb.models": ", ".join(f"{each.label}={each.target}" for each in settings.models),
        "grb.suite": settings.suite,
        "grb.repeats": str(settings.repeats),
    }
    for (model, group), attacks in by_effect(rows).items():
        name = f"grb.attack_rank.{f'{model}@' if model else ''}{group}"
        properties[name] = _ranked(attacks)
    for name, curve in named_curves(rows):
        properties[f"grb.curve.{name}"] = ", ".join(
            f"{point.budget:g} {point.drop:.4f}" for point in curve.points
        )
    properties |= lowest_words.suite_properties(lowest(rows), deltas(rows, settings.delta_to))
    models = by_robustness(rows)
    if len(models) > 1:
        properties["grb.model_rank"] = _ranked(models)
    return properties | rank_words.suite_properties(ranks.groups, ranks.rankings)


def _ranked(entries: Sequence[Ranked]) -> str:
    return ", ".join(f"{each.rank} {each.name} {each.figure:.4f}" for each in entries)
