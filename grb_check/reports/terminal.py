"""The table under pytest's own report, and the header above it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from grb_check.gates import MARGIN
from grb_check.ledger import Row
from grb_check.reports.ranking import by_robustness, mean_by_attack
from grb_check.settings import Settings

COLUMNS = ("difficulty", "attack", "clean", "attacked", "drop", "", "limit", "verdict")


def header(settings: Settings, cases: int, device: str) -> list[str]:
    """What is in force and where it came from."""
    origin = settings.origins
    models = ", ".join(
        f"{each.label}={each.target}" if len(settings.models) > 1 else each.target
        for each in settings.models
    )
    selected = "grb_dataset" if origin["grb_dataset"] != "default" else "grb_suite"
    names = ", ".join(source.name for source in settings.datasets)
    shown = device if settings.device != "auto" else f"auto{f' = {device}' if device else ''}"
    return [
        f"grb model: {models} ({origin['grb_model']})",
        f"grb datasets: {names} ({origin[selected]}); {cases} cases of suite {settings.suite} "
        f"({origin['grb_suite']}) x {settings.repeats} repeats ({origin['grb_repeats']})",
        f"grb device: {shown} ({origin['grb_device']}); "
        f"store: {_store(settings)} ({origin['grb_store']})",
        *(f"grb limit: {line}" for line in _limits(settings)),
    ]


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
        lines.append(f"drop of the reference GCN + {MARGIN:.0%} + its interval (default)")
    if gate.min_clean is not None:
        lines.append(f"clean accuracy at least {gate.min_clean:.1%} ({origin['grb_min_clean']})")
    return lines


def write_table(reporter: pytest.TerminalReporter, rows: Sequence[Row], settings: Settings) -> None:
    """One table for each model and dataset, then the ranks."""
    reporter.section("graph robustness")
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        title, _, _ = row.id.partition("/")
        model, _, dataset = title.rpartition("@")
        groups.setdefault((_model_name(row, model, settings), dataset), []).append(row)
    for (model, dataset), members in groups.items():
        outcome = next((row.outcome for row in members if row.outcome is not None), None)
        about = f" ({outcome.origin})" if outcome is not None else ""
        reporter.write_line(f"{model} on {dataset}{about}", bold=True)
        _write_rows(reporter, members)
        reporter.write_line("")
    _write_ranks(reporter, rows)


def write_missing(reporter: pytest.TerminalReporter, missing: Sequence[str]) -> None:
    """Name the cases that were to run and never came back."""
    reporter.section("grb cases without a verdict", red=True)
    for node_id in missing:
        reporter.write_line(node_id, red=True)
    reporter.write_line(f"{len(missing)} cases were not judged: the run cannot be green", red=True)


def _model_name(row: Row, label: str, settings: Settings) -> str:
    if row.outcome is not None:
        return row.outcome.model
    return label or (settings.models[0].label if settings.models else "model")


def _write_rows(reporter: pytest.TerminalReporter, rows: Sequence[Row]) -> None:
    table = [COLUMNS, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(COLUMNS))]
    for line, row in zip(table, [None, *rows], strict=True):
        text = "  ".join(
            cell.ljust(width) if column < 2 or column > 6 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        color = {"pass": "green", "skip": "yellow"}.get(row.result, "red") if row else "bold"
        reporter.write_line(f"  {text}", **{color: True})


def _cells(row: Row) -> tuple[str, ...]:
    _, difficulty, scenario, attack = row.id.split("/")
    outcome = row.outcome
    if outcome is None:
        return (difficulty, f"{scenario}/{attack}", "-", "-", "-", "", "-", row.result)
    limit = f"{row.verdict['limit']:.1%}" if row.verdict else "-"
    spread = f"+- {100 * outcome.drop_deviation:.1f}" if len(outcome.repeats) > 1 else ""
    figures = [f"{value:.1%}" for value in (outcome.clean, outcome.attacked, outcome.drop)]
    return (difficulty, f"{scenario}/{attack}", *figures, spread, limit, row.result)


def _write_ranks(reporter: pytest.TerminalReporter, rows: Sequence[Row]) -> None:
    attacks = mean_by_attack(rows)
    if len(attacks) > 1:
        reporter.write_line(f"attacks by mean drop: {_ranked(attacks)}")
    models = by_robustness(rows)
    if len(models) > 1:
        reporter.write_line(f"models by mean drop, most robust first: {_ranked(models)}")
    notes = sorted(
        {
            note
            for row in rows
            if row.outcome is not None
            for note in (*row.outcome.warnings, *(n for r in row.outcome.repeats for n in r.notes))
        }
    )
    for note in notes:
        reporter.write_line(f"note: {note}", yellow=True)


def _ranked(entries: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{rank}. {name} {drop:.1%}" for rank, (name, drop) in enumerate(entries, 1))
