"""The tables below pytest's own report, and what `merge` writes to standard output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from grb_check.cases.outcomes import Outcome
from grb_check.gate.baselines.comparison import Comparison, Result
from grb_check.reports.digest import Digest
from grb_check.reports.lowest_words import delta_lines, lowest_line
from grb_check.reports.notes import diagnostic_notes, notes
from grb_check.reports.plain import columns, count, fit
from grb_check.reports.rank_words import comparison_line, place_line, rank_of
from grb_check.reports.record import CaseRecord, RunRecord

COLUMNS: Final = ("difficulty", "attack", "clean", "attacked", "drop", "", "limit", "verdict")
COLOURS: Final = {"pass": "green", "skip": "yellow", "xfail": "yellow", "xpass": "yellow"}
RESULTS: Final = {"xfail": "expected failure", "xpass": "unexpected pass"}
LOST: Final = "A worker died, or a report could not travel to the main process; see above"
SHOWN: Final = 3  # cases that a line names
COMPARED: Final[Mapping[Result, str]] = {
    "fail": "worse",
    "inconclusive": "inconclusive",
    "pass": "no loss beyond the margin",
    "equal": "equal",
    "new": "new",
    "incomparable": "not comparable",
}


class Lines(Protocol):
    """A writer of lines: pytest's reporter, or standard output."""

    def section(self, title: str, sep: str = "=", **markup: bool) -> None:
        """Write a title across the screen."""

    def write_line(self, line: str, **markup: Any) -> None:
        """Write a line, with markup as for pytest's terminal."""


def write_run(out: Lines, digest: Digest, lost: str = "") -> None:
    """Write everything that a terminal shows of a run.

    Args:
        out: to write to.
        digest: of the run.
        lost: why cases are missing; empty if they are not to be listed, as in a run that was
            stopped on purpose.
    """
    record = digest.record
    if record.cases:
        _write_tables(out, digest)
    if record.baseline is not None:
        for line in baseline_lines(record):
            out.write_line(line)
        for note in record.baseline.notes:
            out.write_line(f"note: {note}", yellow=True)
    for verdict in record.ranks.verdicts:
        if verdict.passed is None:
            out.write_line(f"grb: {verdict.message}", yellow=True)
    for note in digest.inconsistent.values():
        out.write_line(f"grb: {note}", red=True)
    if lost:
        write_missing(out, record.missing, lost)


def write_missing(out: Lines, missing: Sequence[str], why: str = LOST) -> None:
    """Write the cases that were to run and got no verdict."""
    out.section("grb cases without a verdict", red=True)
    for node_id in missing:
        out.write_line(node_id, red=True)
    lost = count(len(missing), "case")
    out.write_line(f"not judged: {lost}; the run cannot be green. {why}", red=True)


def baseline_lines(record: RunRecord) -> list[str]:
    """Return the comparison with the baseline in words: cases, then all of them together."""
    if record.baseline is None:
        return []
    found = [each for row in record.cases if (each := row.comparison) is not None]
    results = Counter(each.result for each in found)
    counted = [f"{results[each]} {word}" for each, word in COMPARED.items() if results[each]]
    lines = [f"baseline {record.baseline.path}: {', '.join(counted)}"] if counted else []
    lines += [
        f"baseline, all cases of {each.name}: {each.comparison.text}"
        for each in record.baseline.together
    ]
    return lines + _repeats_needed(record.cases)


def _repeats_needed(rows: Sequence[CaseRecord]) -> list[str]:
    """The number of repeats that would decide the inconclusive cases, the smallest first."""
    found = sorted(
        (each.repeats_needed, row.id)
        for row in rows
        if (each := row.comparison) is not None and each.repeats_needed
    )
    if not found:
        return []
    told = ", ".join(f"{repeats} ({case})" for repeats, case in found[:SHOWN])
    more = f" and {len(found) - SHOWN} more cases" if found[SHOWN:] else ""
    return [
        f"baseline: repeats on both sides that would decide it with 80 % probability: {told}{more}"
    ]


def _write_tables(out: Lines, digest: Digest) -> None:
    """One table for each model and dataset, then what concerns all of them."""
    record = digest.record
    out.section("graph robustness")
    back = {row.node_id for row in record.cases}
    for (model, dataset), every in digest.groups.items():
        lines = [line for line in every if line.row.node_id in back]
        if not lines:
            continue
        outcome = next((row.outcome for line in lines if (row := line.row).outcome), None)
        about = f" ({outcome.origin})" if outcome is not None else ""
        out.write_line(f"{model or 'model'} on {dataset}{about}", bold=True)
        _write_table(out, [line.row for line in lines])
        for low in record.lowest:
            if (fit(low.model), low.dataset) == (model, dataset):
                out.write_line(f"  {lowest_line(low)}")
        out.write_line("")
    for text in _lines_on_all(digest):
        out.write_line(text)
    for note in (*notes(record.cases), *record.ranks.notes):
        out.write_line(f"note: {note}", yellow=True)
    for note in diagnostic_notes(record.cases):
        out.write_line(f"diagnostic: {note}", yellow=True, bold=True)


def _write_table(out: Lines, rows: Sequence[CaseRecord]) -> None:
    """The table of a model and dataset; ranks are those on the first leaderboard."""
    boards = [row.standings[0].board for row in rows if row.standings]
    table: list[tuple[str, ...]] = [COLUMNS, *map(_cells, rows)]
    if any(row.comparison is not None for row in rows):
        table = _before_last(table, ["loss (baseline)", *(loss(row.comparison) for row in rows)])
    if boards:
        table = _before_last(
            table, [f"rank ({boards[0]})", *(_rank(row, boards[0]) for row in rows)]
        )
    lines = columns(table, right=range(2, len(table[0]) - 1))
    for line, row in zip(lines, [None, *rows], strict=True):
        color = COLOURS.get(row.result, "red") if row else "bold"
        out.write_line(f"  {line}", **{color: True})


def _before_last(table: Sequence[tuple[str, ...]], column: Sequence[str]) -> list[tuple[str, ...]]:
    """The table with one more column, before the verdicts."""
    return [(*cells[:-1], cell, cells[-1]) for cells, cell in zip(table, column, strict=True)]


def _cells(row: CaseRecord) -> tuple[str, ...]:
    case, outcome = row.case, row.outcome
    attack = f"{case.scenario}/{case.attack}"
    if outcome is None:
        return (case.difficulty, attack, "-", "-", "-", "", "-", row.result)
    limit = row.verdict.limit if row.verdict is not None else None
    spread = f"+- {100 * outcome.drop_deviation:.1f}" if len(outcome.repeats) > 1 else ""
    figures = [f"{value:.1%}" for value in (outcome.clean, outcome.attacked, outcome.drop)]
    allowed = "-" if limit is None else f"{limit:.1%}"
    return (case.difficulty, attack, *figures, spread, allowed, _result(row, outcome.outcome))


def _result(row: CaseRecord, outcome: Outcome) -> str:
    """The verdict and its reason; with a question mark if a diagnostic doubts the attack."""
    if row.result in RESULTS:
        return RESULTS[row.result]
    if row.unexpected_pass:
        return "fail (unexpected pass)"
    if row.below_floor:
        return "fail (clean)"
    if row.failed_diagnostics:
        return f"fail ({', '.join(row.failed_diagnostics)})"
    near = " (borderline)" if row.verdict is not None and row.verdict.borderline else ""
    return f"{row.result}{near} ?" if outcome.findings else f"{row.result}{near}"


def loss(comparison: Comparison | None) -> str:
    """Return a cell: percentage points lost, and the verdict unless the case simply passed."""
    if comparison is None:
        return "-"
    if comparison.loss is None or comparison.result == "equal":
        return COMPARED[comparison.result]
    mark = {"fail": " worse", "inconclusive": " ?"}.get(comparison.result, "")
    return f"{comparison.loss:+.1f}{mark}"


def _rank(row: CaseRecord, board: str) -> str:
    return next((rank_of(each) for each in row.standings if each.board == board), "-")


def _lines_on_all(digest: Digest) -> list[str]:
    """Orders of attacks and models, ranks, drops by budget, and deltas."""
    ranks, lines = digest.record.ranks, []
    for title, order in (
        ("attacks by mean drop", ranks.mean_attacks),
        ("models by mean drop, most robust first", ranks.models),
    ):
        if len(order) > 1:
            told = ", ".join(f"{each.rank}. {each.name} {each.drop:.1%}" for each in order)
            lines.append(f"{title}: {told}")
    lines += [comparison_line(each) for each in ranks.comparisons if not each.attack]
    seen = {f"{row.id.rpartition('/')[0].rpartition('/')[0]}" for row in digest.rows}
    lines += [
        place_line(each, several=each.group != f"{each.dataset}/{each.difficulty}")
        for each in ranks.standings
        if each.standing is not None or each.group in seen
    ]
    for name, curve in digest.named_curves:
        drops = ", ".join(f"{point.budget:g} -> {point.drop:.1%}" for point in curve.points)
        lines.append(f"drop by budget, {name}: {drops}")
    return lines + delta_lines(digest.record.delta)
