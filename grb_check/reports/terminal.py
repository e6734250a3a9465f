"""The table under pytest's own report, and the header above it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from grb_check.cases.expected_cases import Row
from grb_check.cases.outcomes import Outcome
from grb_check.gate.limits import DROP_MARGIN
from grb_check.ranking.budget_curves import named_curves
from grb_check.ranking.lowest import deltas, lowest
from grb_check.ranking.orders import by_robustness, mean_by_attack
from grb_check.ranking.run_ranks import Ranks
from grb_check.reports.columns import columns
from grb_check.reports.lowest_words import delta_lines, lowest_line
from grb_check.reports.notes import diagnostic_notes, notes
from grb_check.reports.rank_words import listed, rank_of, ranking_lines, standing_lines
from grb_check.session.baseline_tests import baseline_lines, loss
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.settings import Settings

if TYPE_CHECKING:
    from grb_check.cases.shards import Plan
    from grb_check.gate.baselines.result import BaselineResult
    from grb_check.ranking.standing import Standing

COLUMNS = ("difficulty", "attack", "clean", "attacked", "drop", "", "limit", "verdict")

LOST = "A worker died, or a report could not travel to the main process; see above"


class Lines(Protocol):
    """Where lines are written: pytest's reporter, or standard output."""

    def section(self, title: str, sep: str = "=", **markup: bool) -> None:
        """Write a title across the screen."""

    def write_line(self, line: str, **markup: Any) -> None:
        """Write a line, with markup as for pytest's terminal."""


def header(settings: Settings, cases: int, device: str) -> list[str]:
    """What is in force and where it came from."""
    origin = settings.origins
    models = ", ".join(
        f"{f'{each.label}=' if len(settings.models) > 1 else ''}{each.target}"
        f"{f'({_arguments(each)})' if each.args else ''}"
        for each in settings.models
    )
    selected = "grb_dataset" if origin["grb_dataset"] != "default" else "grb_suite"
    names = ", ".join(source.name for source in settings.datasets)
    shown = device if settings.device != "auto" else f"auto{f' = {device}' if device else ''}"
    return [
        f"grb model: {models} ({origin['grb_model']})",
        f"grb datasets: {names} ({origin[selected]}); {count(cases, 'case')} of suite "
        f"{settings.suite} ({origin['grb_suite']}) x {count(settings.repeats, 'repeat')} "
        f"({origin['grb_repeats']})",
        *_budgets(settings),
        f"grb device: {shown} ({origin['grb_device']}); "
        f"store: {_store(settings)} ({origin['grb_store']})",
        *_against(settings),
        *_delta_to(settings),
        *_baseline(settings),
        *(f"grb limit: {line}" for line in _limits(settings)),
    ]


def shard_lines(plan: Plan, times: Path | None, *, others: bool) -> list[str]:
    """Which part of a run this is; none where it is a whole.

    Args:
        plan: of the run.
        times: the file by which the parts are balanced, if there is one.
        others: whether tests other than the plugin's cases may run as well.
    """
    if plan.shard is None:
        return []
    own, every = len(plan.own), len(plan.cases)
    by = "taken as equally long" if times is None else f"by the times in {times.name}"
    lines = [f"grb shard: {plan.shard}, {own} of {count(every, 'case')}, {by}"]
    if others:
        lines.append(
            "grb shard: the repository's own tests are not divided and run in every part; "
            "--grb-only leaves them out"
        )
    return lines


def _budgets(settings: Settings) -> list[str]:
    shares = ", ".join(f"{budget:g}" for budget in settings.budgets)
    return [f"grb budgets: {shares} ({settings.origins['grb_budget']})"] if shares else []


def _against(settings: Settings) -> list[str]:
    boards, origin = str(settings.comparison_models), settings.origins.get("grb_rank_against")
    return [f"grb ranks: against {boards} ({origin})"] if boards else []


def _delta_to(settings: Settings) -> list[str]:
    origin = settings.origins.get("grb_delta_to")
    return [f"grb delta: to {settings.delta_to} ({origin})"] if settings.delta_to else []


def _baseline(settings: Settings) -> list[str]:
    baseline = settings.baseline
    if baseline is None:
        return []
    what = f"{len(baseline.entries)} entries, margin {baseline.margin:g} points"
    if baseline.writes:
        what = "to be written" if baseline.requested else "not there yet: to be written"
        what += ", nothing is compared"
    where = os.path.relpath(baseline.path)
    return [f"grb baseline: {where}, {what} ({settings.origins['grb_baseline']})"]


def _arguments(model: ModelSpec) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in model.args.items())


def _store(settings: Settings) -> str:
    return "off" if settings.store is None else os.path.relpath(settings.store)


def _limits(settings: Settings) -> list[str]:
    gate, origin = settings.gate, settings.origins
    lines = [
        f"drop {each.limit:.1%} for {each.pattern} ({origin['grb_threshold']})"
        for each in gate.thresholds
    ]
    if gate.max_drop is not None:
        lines.append(f"drop {gate.max_drop:.1%} ({origin['grb_max_drop']})")
    else:
        lines.append(f"drop of the reference GCN + {DROP_MARGIN:.0%} + its interval (default)")
    judges = settings.baseline is not None and not settings.baseline.writes
    if judges and gate.max_drop is None:
        lines[-1] += "; where the baseline has an entry, no loss beyond its margin instead"
    if gate.min_clean is not None:
        lines.append(f"clean accuracy at least {gate.min_clean:.1%} ({origin['grb_min_clean']})")
    lines += [
        f"rank {each.rank} for {each.pattern} ({origin['grb_min_rank']})"
        for each in settings.rank_limits
    ]
    if gate.strict_diagnostics:
        lines.append(f"no finding of a diagnostic ({origin['grb_strict_diagnostics']})")
    return lines


def write_table(reporter: Lines, rows: Sequence[Row], settings: Settings, ranks: Ranks) -> None:
    """One table for each model and dataset, then the ranks."""
    reporter.section("graph robustness")
    names = {(row.case.model, row.case.dataset): row.outcome.model for row in rows if row.outcome}
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        name = names.get((row.case.model, row.case.dataset)) or _label(row, settings)
        name = row.outcome.model if row.outcome is not None else name
        groups.setdefault((name, row.case.dataset), []).append(row)
    lows = lowest(rows)
    for (model, dataset), members in groups.items():
        outcome = next((row.outcome for row in members if row.outcome is not None), None)
        about = f" ({outcome.origin})" if outcome is not None else ""
        reporter.write_line(f"{model} on {dataset}{about}", bold=True)
        _write_rows(reporter, members, ranks)
        for low in lows:
            if (low.model, low.dataset) == (model, dataset):
                reporter.write_line(f"  {lowest_line(low)}")
        reporter.write_line("")
    _write_ranks(reporter, rows, settings, ranks)


def write_baseline(reporter: Lines, end: BaselineResult, rows: Sequence[Row]) -> None:
    """What the baseline says of the run, or that it was written."""
    for line in baseline_lines(end, rows):
        reporter.write_line(line)
    for note in end.notes:
        reporter.write_line(f"note: {note}", yellow=True)


def write_unjudged(reporter: Lines, messages: Sequence[str]) -> None:
    """Say which limits on ranks could not be held against anything."""
    for message in messages:
        reporter.write_line(f"grb: {message}", yellow=True)


def write_torn(reporter: Lines, names: Sequence[str]) -> None:
    """Name the datasets that were not the same in all cases."""
    for name in names:
        reporter.write_line(
            f"grb: dataset {name} was another graph in every process, so that its cases cannot be "
            f"compared and the run cannot be green; seed the function that makes it",
            red=True,
        )


def write_missing(reporter: Lines, missing: Sequence[str], why: str = LOST) -> None:
    """Name the cases that were to run and got no verdict."""
    reporter.section("grb cases without a verdict", red=True)
    for node_id in missing:
        reporter.write_line(node_id, red=True)
    lost = count(len(missing), "case")
    reporter.write_line(f"not judged: {lost}; the run cannot be green. {why}", red=True)


def count(number: int, what: str) -> str:
    """`1 case`, `2 cases`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _label(row: Row, settings: Settings) -> str:
    return row.case.model or (settings.models[0].label if settings.models else "model")


def _write_rows(reporter: Lines, rows: Sequence[Row], ranks: Ranks) -> None:
    """The table; with the rank under each attack where a leaderboard has one, the first that is."""
    boards = [standings[0].board for row in rows if (standings := ranks.of_cases.get(row.node_id))]
    table = [COLUMNS, *map(_cells, rows)]
    if any(row.verdict and row.verdict.get("comparison") for row in rows):
        table = _before_last(table, ["loss (baseline)", *(loss(row.verdict) for row in rows)])
    if boards:
        shown = [_rank(ranks.of_cases.get(row.node_id, ()), boards[0]) for row in rows]
        table = _before_last(table, [f"rank ({boards[0]})", *shown])
    lines = columns(table, right=range(2, len(table[0]) - 1))
    for line, row in zip(lines, [None, *rows], strict=True):
        color = {"pass": "green", "skip": "yellow"}.get(row.result, "red") if row else "bold"
        reporter.write_line(f"  {line}", **{color: True})


def _before_last(table: Sequence[tuple[str, ...]], column: Sequence[str]) -> list[tuple[str, ...]]:
    """The table with one more column, before the verdicts."""
    return [(*cells[:-1], cell, cells[-1]) for cells, cell in zip(table, column, strict=True)]


def _rank(standings: Sequence[Standing], board: str) -> str:
    return next((rank_of(each) for each in standings if each.board == board), "-")


def _cells(row: Row) -> tuple[str, ...]:
    case, outcome = row.case, row.outcome
    attack = f"{case.scenario}/{case.attack}"
    if outcome is None:
        return (case.difficulty, attack, "-", "-", "-", "", "-", row.result)
    limit = _limit(row)
    spread = f"+- {100 * outcome.drop_deviation:.1f}" if len(outcome.repeats) > 1 else ""
    figures = [f"{value:.1%}" for value in (outcome.clean, outcome.attacked, outcome.drop)]
    return (case.difficulty, attack, *figures, spread, limit, _result(row, outcome))


def _limit(row: Row) -> str:
    """The largest drop that passes; none where a baseline takes its place."""
    if row.verdict is None or row.verdict["limit"] is None:
        return "-"
    return f"{row.verdict['limit']:.1%}"


def _result(row: Row, outcome: Outcome) -> str:
    """The verdict and why; with a question mark where a diagnostic doubts the attack."""
    if row.below_floor:
        return "fail (clean)"
    if row.failed_diagnostics:
        return f"fail ({', '.join(row.failed_diagnostics)})"
    near = " (borderline)" if row.verdict and row.verdict.get("borderline") else ""
    return f"{row.result}{near} ?" if outcome.findings else f"{row.result}{near}"


def _write_ranks(reporter: Lines, rows: Sequence[Row], settings: Settings, ranks: Ranks) -> None:
    attacks = mean_by_attack(rows)
    if len(attacks) > 1:
        reporter.write_line(f"attacks by mean drop: {listed(attacks)}")
    models = by_robustness(rows)
    if len(models) > 1:
        reporter.write_line(f"models by mean drop, most robust first: {listed(models)}")
    for line in (*ranking_lines(ranks.rankings), *standing_lines(ranks.groups)):
        reporter.write_line(line)
    _write_curves(reporter, rows)
    for line in delta_lines(deltas(rows, settings.delta_to)):
        reporter.write_line(line)
    for note in (*notes(rows), *ranks.notes):
        reporter.write_line(f"note: {note}", yellow=True)
    for note in diagnostic_notes(rows):
        reporter.write_line(f"diagnostic: {note}", yellow=True, bold=True)


def _write_curves(reporter: Lines, rows: Sequence[Row]) -> None:
    for name, curve in named_curves(rows):
        drops = ", ".join(f"{point.budget:g} -> {point.drop:.1%}" for point in curve.points)
        reporter.write_line(f"drop by budget, {name}: {drops}")
