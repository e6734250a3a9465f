"""The columns of tables of cases, in the terminal and on the page: a new one is a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.cases.case_record import CaseRecord
from grb_check.cases.outcomes import Outcome, Ranking
from grb_check.cases.verdicts import Comparison, ComparisonResult
from grb_check.reports.case_line import Line
from grb_check.reports.plain import columns
from grb_check.reports.rank_words import rank_of

RESULTS: Final = {"xfail": "expected failure", "xpass": "unexpected pass"}
COMPARED: Final[Mapping[ComparisonResult, str]] = {
    "fail": "worse",
    "inconclusive": "undecided",
    "pass": "no loss beyond the margin",
    "within": "lost no more than the margin, by their mean",
    "equal": "equal",
    "new": "new",
    "incomparable": "not comparable",
}


@dataclass(frozen=True)
class Column:
    """A column of a table of cases.

    Attributes:
        name: its head.
        text: returns the cell of a case. A column whose cells are all empty is left out.
        right: whether it is aligned to the right.
        terminal: whether the terminal has it.
        page: whether the page has it.
        spare: in a terminal without room for all, the highest is left out first; 0 for never.
        legend: what it shows, for the line below the tables; empty if its name says it.
    """

    name: str
    text: Callable[[Line], str]
    right: bool = True
    terminal: bool = True
    page: bool = True
    spare: int = 0
    legend: str = ""


def _figure(text: Callable[[Outcome], str]) -> Callable[[Line], str]:
    """A cell of a case that has figures; a dash for others."""
    return lambda line: "-" if line.row.outcome is None else text(line.row.outcome)


def _attack(line: Line) -> str:
    return f"{line.attack} ({line.test})" if line.test else line.attack


def _accuracy(line: Line) -> str:
    """The accuracy under attack, where the figures are balanced accuracies."""
    outcome = line.row.outcome
    balanced = outcome is not None and outcome.target_weights
    return f"{outcome.accuracy[1]:.1%}" if outcome and balanced else ""


def _ranking(figure: Callable[[Ranking], float | None]) -> Callable[[Line], str]:
    """A figure of a recall in percent, without and with the attack."""

    def cell(line: Line) -> str:
        outcome = line.row.outcome
        sides = () if outcome is None else outcome.mean_ranking(figure)
        return " > ".join(f"{100 * side:.1f}" for side in sides)

    return cell


def _spread(line: Line) -> str:
    outcome = line.row.outcome
    several = outcome is not None and len(outcome.repeats) > 1
    return f"+- {100 * outcome.drop_deviation:.1f}" if outcome and several else ""


def _interval(line: Line) -> str:
    interval = line.row.verdict.interval if line.row.verdict is not None else None
    return "-" if interval is None else f"{100 * interval[0]:.1f} ... {100 * interval[1]:.1f}"


def _mark(of: Callable[[Outcome], float | None]) -> Callable[[Line], str]:
    """Attacked accuracy of a model that the figures are compared with, if it is known."""

    def cell(line: Line) -> str:
        value = None if line.row.outcome is None else of(line.row.outcome)
        return "" if value is None else f"{value:.1%}"

    return cell


def _limit(line: Line) -> str:
    return "-" if line.limit is None or line.row.outcome is None else f"{line.limit:.1%}"


def _rank(line: Line) -> str:
    """The rank on the first leaderboard that has the attack."""
    return next((f"{rank_of(standing)} ({standing.board})" for standing in line.standings), "")


def loss(comparison: Comparison | None) -> str:
    """Return a cell: percentage points lost, and the verdict unless the case simply passed.

    `clean` stands beside a loss of clean accuracy, for which another test fails.
    """
    if comparison is None:
        return ""
    if comparison.loss is None or comparison.result == "equal":
        return COMPARED[comparison.result]
    mark = {"fail": " worse", "inconclusive": " ?"}.get(comparison.result, "")
    if comparison.explained and comparison.result != "fail":
        mark = " clean"
    return f"{comparison.loss:+.1f}{mark}"


def verdict_of(row: CaseRecord) -> str:
    """Return the verdict and its reason, with a question mark if a diagnostic doubts the attack."""
    if row.result in RESULTS:
        return RESULTS[row.result]
    if row.unexpected_pass:
        return "fail (unexpected pass)"
    if row.below_floor:
        return "fail (clean)"
    if row.failed_diagnostics:
        return f"fail ({', '.join(row.failed_diagnostics)})"
    if row.verdict is not None and row.verdict.inconclusive:
        return "fail (undecided)"
    reported: str = row.gate_result if row.result == "pass" else row.result
    near = " (borderline)" if row.verdict is not None and row.verdict.borderline else ""
    doubted = row.outcome is not None and row.outcome.findings
    return f"{reported}{near} ?" if doubted else f"{reported}{near}"


COLUMNS: Final = (
    Column(
        "difficulty",
        lambda line: line.row.case.difficulty,
        right=False,
        legend="easy, medium, hard: nodes of low to high degree",
    ),
    Column("attack", _attack, right=False),
    Column("clean", _figure(lambda outcome: f"{outcome.clean:.1%}"), spare=1),
    Column("attacked", _figure(lambda outcome: f"{outcome.attacked:.1%}")),
    Column(
        "drop",
        _figure(lambda outcome: f"{outcome.drop:.1%}"),
        legend="drop: share of the clean figure that is lost",
    ),
    Column("", _spread, spare=2, legend="+-: its deviation over the repeats"),
    Column("accuracy", _accuracy, spare=1, legend="accuracy: under attack, of all targets alike"),
    Column(
        "ROC-AUC",
        _ranking(lambda ranking: ranking.roc_auc),
        spare=1,
        legend="ROC-AUC: without and with the attack, of the targets among nodes of other classes",
    ),
    Column(
        "others",
        _ranking(lambda ranking: ranking.other_recall),
        spare=1,
        legend="others: share of the class's other test nodes that is found, without and with it",
    ),
    Column("interval", _interval, terminal=False),
    Column("limit", _limit),
    Column("no graph", _mark(lambda outcome: outcome.no_graph), spare=3),
    Column(
        "undefended",
        _mark(lambda outcome: outcome.undefended),
        spare=4,
        legend="undefended: the least robust of the undefended models",
    ),
    Column(
        "best known",
        _mark(lambda outcome: outcome.most_robust and outcome.most_robust[1]),
        spare=5,
    ),
    Column(
        "loss",
        lambda line: loss(line.comparison),
        legend="loss: points of attacked accuracy below the baseline",
    ),
    Column("rank", _rank, spare=6),
    Column("s", _figure(lambda outcome: f"{outcome.seconds:.1f}"), terminal=False),
    Column("verdict", lambda line: verdict_of(line.row), right=False, page=False),
)


def filled(lines: Sequence[Line]) -> list[Column]:
    """Return the columns that have a text in one of these cases; that of the spread always."""
    return [column for column in COLUMNS if not column.name or any(map(column.text, lines))]


def fitting(lines: Sequence[Line], width: int | None) -> list[Column]:
    """Return the columns of a terminal that fit into its width, as far as they may be left out.

    Args:
        lines: of one table.
        width: in characters; None for all columns.
    """
    shown = [column for column in filled(lines) if column.terminal]
    while width is not None and max(map(len, table(lines, shown))) > width:
        spare = max(shown, key=lambda column: column.spare)
        if not spare.spare:
            break
        shown.remove(spare)
    return shown


def table(lines: Sequence[Line], shown: Sequence[Column]) -> list[str]:
    """Return the heading of these columns and a row for each case."""
    cells = [[column.text(line) for column in shown] for line in lines]
    right = [position for position, column in enumerate(shown) if column.right]
    return columns([[column.name for column in shown], *cells], right)


def legend(lines: Sequence[Line], shown: Sequence[Column], without: Sequence[Column]) -> str:
    """Return the line below the tables.

    Args:
        lines: of all tables.
        shown: columns of theirs.
        without: columns that were left out for want of room.
    """
    parts = [column.legend for column in shown if column.legend and any(map(column.text, lines))]
    if any(verdict_of(line.row).endswith("?") for line in lines):
        parts.append("?: a diagnostic doubts the attack")
    names = [column.name or "+-" for column in without]
    if names:
        parts.append(f"-v, or a wider terminal, also shows: {', '.join(names)}")
    return "; ".join(parts)
