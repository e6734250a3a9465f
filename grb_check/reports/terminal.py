"""The tables below pytest's own report, and what `merge` writes to standard output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Protocol

from grb_check.cases.case_record import CaseRecord
from grb_check.cases.target_weights import ACCURACY
from grb_check.errors import count
from grb_check.files.text import fit, fit_line
from grb_check.reports import audit
from grb_check.reports.case_line import Line
from grb_check.reports.columns import COMPARED, Column, filled, fitting, legend, table
from grb_check.reports.conclusion import GATE_ADVICE, conclusions, no_gate
from grb_check.reports.digest import Digest, changes_in
from grb_check.reports.lowest_words import delta_lines, lowest_lines
from grb_check.reports.notes import diagnostic_notes, notes
from grb_check.reports.rank_words import comparison_lines, listed, standing_line
from grb_check.reports.record import RunRecord

YELLOW: Final = ("warn", "measured", "skip", "xfail", "xpass")
COLOURS: Final = {"pass": "green", **dict.fromkeys(YELLOW, "yellow")}
LOST: Final = "A worker died, or a report could not travel to the main process; see above"
SHOWN: Final = 3  # cases that a line names


class Lines(Protocol):
    """A writer of lines: pytest's reporter, or standard output.

    It writes what it is given, which `_Plain` has freed of control characters.
    """

    def section(self, title: str, sep: str = "=", **markup: bool) -> None:
        """Write a title across the screen."""

    def write_line(self, line: str, **markup: Any) -> None:
        """Write a line, with markup as for pytest's terminal."""


class _Plain:
    """A writer that passes on each line as one line without control characters."""

    def __init__(self, out: Lines) -> None:
        self._out = out

    def section(self, title: str, sep: str = "=", **markup: bool) -> None:
        self._out.section(fit_line(title), sep=sep, **markup)

    def write_line(self, line: str, **markup: Any) -> None:
        self._out.write_line(fit_line(line), **markup)


def write_run(
    out: Lines,
    digest: Digest,
    lost: str = "",
    *,
    details: bool = False,
    width: int | None = None,
) -> None:
    """Write everything that a terminal shows of a run.

    Args:
        out: to write to.
        digest: of the run.
        lost: why cases are missing; empty if they are not to be listed, as in a run that was
            stopped on purpose.
        details: whether to write what else follows from the figures, as the other reports do.
        width: in characters, that tables should not exceed; None for one without an end, as a log.
    """
    record, out = digest.record, _Plain(out)
    if record.cases:
        _write_tables(out, digest, details=details, width=width)
    if record.baseline is not None:
        for line in baseline_lines(record):
            out.write_line(line)
        for note in record.baseline.notes:
            out.write_line(f"note: {note}", yellow=True)
    for note in digest.inconsistent.values():
        out.write_line(f"grb: {note}", red=True)
    if lost:
        write_missing(out, record.missing, lost)


def write_missing(out: Lines, missing: Sequence[str], why: str = LOST) -> None:
    """Write the cases that were to run and got no verdict."""
    out = _Plain(out)
    out.section("grb cases without a verdict", red=True)
    for node_id in missing:
        out.write_line(node_id, red=True)
    lost = count(len(missing), "case")
    out.write_line(f"no verdict on {lost}; the run cannot be green. {why}", red=True)


def baseline_lines(record: RunRecord) -> list[str]:
    """Return the comparison with the baseline in words: cases, all of them together, the update."""
    if record.baseline is None:
        return []
    result = [comparison for row in record.cases if (comparison := row.comparison) is not None]
    results = Counter(comparison.result for comparison in result)
    counted = [f"{results[kind]} {word}" for kind, word in COMPARED.items() if results[kind]]
    lines = [f"baseline {record.baseline.path}: {', '.join(counted)}"] if counted else []
    lines += [
        f"{reference}, {joint.scope}: {joint.comparison.text}"
        for reference, joint in record.baseline.joint_tests
    ]
    return lines + _repeats_needed(record.cases)


def _repeats_needed(rows: Sequence[CaseRecord]) -> list[str]:
    """The number of repeats that would decide the inconclusive cases, the smallest first."""
    result = sorted(
        (comparison.repeats_needed, row.id)
        for row in rows
        if (comparison := row.comparison) is not None and comparison.repeats_needed
    )
    if not result:
        return []
    reported = ", ".join(f"{repeats} ({case})" for repeats, case in result[:SHOWN])
    more = f" and {len(result) - SHOWN} more cases" if result[SHOWN:] else ""
    return [
        f"baseline: repeats on both sides that would decide it with 80 % probability: "
        f"{reported}{more}"
    ]


def _write_tables(out: Lines, digest: Digest, *, details: bool, width: int | None) -> None:
    """One table for each model and dataset, then what concerns all of them."""
    record = digest.record
    out.section("graph robustness")
    for text, good in digest.leads:
        out.write_line(text, bold=True, **({"green": True} if good else {"yellow": True}))
    back = {row.node_id for row in record.cases}
    columns: dict[Column, bool] = {}  # and whether a table shows it
    for (model, dataset), every in digest.groups.items():
        lines = [line for line in every if line.row.node_id in back]
        if not lines:
            continue
        outcome = next((row.outcome for line in lines if (row := line.row).outcome), None)
        about = f" ({outcome.origin})" if outcome is not None else ""
        if outcome is not None and outcome.metric != ACCURACY:
            about += f": {outcome.metric}"
        out.write_line(f"{model or 'model'} on {dataset}{about}", bold=True)
        if changes := changes_in(lines):
            out.write_line(f"  between data and model: {'; '.join(changes)}")
        shown = fitting(lines, width)
        _write_table(out, lines, shown)
        known = [column for column in filled(lines) if column.terminal]
        columns |= {column: column in shown or columns.get(column, False) for column in known}
        out.write_line("")
        group = (model, dataset)
        lows = [low for low in digest.summary.lowest if (fit(low.model), low.dataset) == group]
        for text in lowest_lines(lows) if details else ():
            out.write_line(f"  {text}")
    present = [column for column, is_shown in columns.items() if is_shown]
    without = [column for column, is_shown in columns.items() if not is_shown]
    out.write_line(legend(digest.lines, present, without))
    for text in conclusions(record):
        out.write_line(text, bold=True)
    for conclusion in audit.audit_conclusions(record):
        out.write_line(f"audit: {conclusion.text}", bold=True)
    if digest.green and no_gate(record):
        out.write_line(GATE_ADVICE)
    for text in [*_lines_on_all(digest), *(_details(digest) if details else ())]:
        out.write_line(text)
    for note in (*record.notes, *notes(record.cases, record.settings.repeats), *record.ranks.notes):
        out.write_line(f"note: {note}", yellow=True)
    for note in diagnostic_notes(record.cases):
        out.write_line(f"diagnostic: {note}", yellow=True, bold=True)


def _write_table(out: Lines, lines: Sequence[Line], shown: Sequence[Column]) -> None:
    """The table of a model and dataset."""
    for text, line in zip(table(lines, shown), [None, *lines], strict=True):
        color = _colour(line.row) if line else "bold"
        out.write_line(text, **{color: True})


def _colour(row: CaseRecord) -> str:
    return COLOURS.get(row.gate_result if row.result == "pass" else row.result, "red")


def _details(digest: Digest) -> list[str]:
    """Orders of attacks and models by drop, and differences to the reference GCN."""
    result, lines = digest.summary, []
    for title, order in (
        ("attacks by mean drop", result.mean_attacks),
        ("models by mean drop, most robust first", result.models),
    ):
        if len(order) > 1:
            lines.append(f"{title}: {listed(order)}")
    return lines + delta_lines(result.delta)


def _lines_on_all(digest: Digest) -> list[str]:
    """Models in order, ranks on leaderboards, and drops by budget."""
    lines = comparison_lines(digest.summary.comparisons)
    lines += map(standing_line, digest.record.ranks.standings)
    for name, curve in digest.named_curves:
        drops = ", ".join(f"{point.budget:g} -> {point.drop:.1%}" for point in curve.points)
        lines.append(f"drop by budget, {name}: {drops}")
    return lines
