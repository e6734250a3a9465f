"""A run as its reports show it: terminal, HTML, Markdown and JUnit. Made from the record alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from grb_check.cases.case_record import CaseRecord, inconsistent, with_lost
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.verdicts import Comparison
from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.ranking.budget_curves import Curve
from grb_check.reports.audit import audit_conclusions
from grb_check.reports.case_line import (
    BAD,
    FINE,
    LOST,
    STATUSES,
    UNSURE,
    WORDS,
    Line,
    Status,
    _first,
    _status,
)
from grb_check.reports.levels import Level, levels
from grb_check.reports.plain import enumerated
from grb_check.reports.record import BaselineRecord, RunRecord, ShardRecord
from grb_check.reports.summary import Summary, summary_of
from grb_check.settings.options import describe_given

SHOWN: Final = 3  # losses in the headline


@dataclass(frozen=True)
class OtherFailure:
    """A failure that is not that of one case.

    Attributes:
        name: the same in every run.
        model: name of the model; empty if it is not that of one.
        text: with figures.
    """

    name: str
    model: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Digest:
    """A run as its reports show it.

    Attributes:
        record: of the run.
        lines: cases that came back, and those that did not.
        unknown: missing node ids that name no case, as those of users' own tests.
        name: of the record, for reports about several; else empty.
    """

    record: RunRecord
    lines: tuple[Line, ...]
    unknown: tuple[str, ...]
    name: str = ""

    @property
    def rows(self) -> tuple[CaseRecord, ...]:
        """The cases that came back."""
        return self.record.cases

    @cached_property
    def summary(self) -> Summary:
        """The summary of the record."""
        return summary_of(self.record)

    @cached_property
    def counts(self) -> dict[Status, int]:
        """Number of cases of each status, zeros included."""
        result = Counter(line.status for line in self.lines)
        result["missing"] += len(self.unknown)
        return {status: result[status] for status in STATUSES}

    @cached_property
    def groups(self) -> dict[tuple[str, str], list[Line]]:
        """(model, dataset) -> its cases, in order."""
        result: dict[tuple[str, str], list[Line]] = {}
        for line in self.lines:
            result.setdefault(line.group, []).append(line)
        return result

    @cached_property
    def bad(self) -> list[Line]:
        """Cases that keep the run from being green, those farthest beyond their limit first."""
        result = [line for line in self.lines if line.status in BAD]
        return sorted(result, key=lambda line: (STATUSES.index(line.status), -line.severity))

    @cached_property
    def unsure(self) -> list[Line]:
        """Cases in `UNSURE`, warnings first."""
        result = [line for line in self.lines if line.status in UNSURE]
        return sorted(result, key=lambda line: STATUSES.index(line.status))

    @property
    def expected(self) -> list[Line]:
        """Cases that are expected to fail, those that passed first."""
        result = [line for line in self.lines if line.status in ("xpass", "xfail")]
        return sorted(result, key=lambda line: STATUSES.index(line.status))

    @property
    def trouble(self) -> str:
        """Title of the cases to look at first."""
        return "What broke" if self.bad or self.unknown else "What cannot be told"

    @property
    def several_models(self) -> bool:
        """Whether reports have to name the model."""
        return len({model for model, _ in self.groups}) > 1

    @property
    def baseline(self) -> BaselineRecord | None:
        """The baseline that the run was compared with."""
        return self.record.baseline

    @property
    def shard(self) -> ShardRecord | None:
        """The part of a run that this is; None for a whole run."""
        return self.record.shard

    @property
    def unasked(self) -> str:
        """Note on a baseline that was written because there was none; else empty."""
        if self.baseline is None or not self.baseline.written or self.baseline.requested:
            return ""
        return (
            f"there was no baseline; it was written to {self.baseline.path}: look at it, commit it"
        )

    @cached_property
    def inconsistent(self) -> dict[str, str]:
        """Datasets that were different graphs in different cases -> a note on it."""
        seen = [
            (row.case.dataset, row.outcome.dataset) for row in self.rows if row.outcome is not None
        ]
        return {
            name: f"dataset {name} was a different graph in some cases, which cannot be compared; "
            f"seed the function that makes it"
            for name in inconsistent(seen)
        }

    @cached_property
    def further(self) -> list[OtherFailure]:
        """Failures besides those of cases: baseline, audit, data."""
        models, baseline = self.record.settings.models, self.baseline
        alone = models[0].label if len(models) == 1 else ""
        result: list[OtherFailure] = []
        for reference, joint in baseline.joint_tests if baseline is not None else ():
            if joint.failed:
                text = f"{joint.scope}: {joint.comparison.text}"
                result.append(
                    OtherFailure(f"{reference} on {joint.name}", joint.model or alone, text)
                )
        result += [
            OtherFailure(
                f"audit on {conclusion.dataset}", conclusion.model or alone, conclusion.text
            )
            for conclusion in audit_conclusions(self.record)
            if conclusion.falls
        ]
        if self.unasked:
            result.append(OtherFailure("no baseline", "", self.unasked))
        for name, text in self.inconsistent.items():
            result.append(OtherFailure(f"graph of {name}", "", text))
        return [
            OtherFailure(fit(failure.name), fit(failure.model), fit(failure.text))
            for failure in result
        ]

    @property
    def green(self) -> bool:
        """Whether something ran and nothing failed."""
        return bool(self.lines) and not self.bad and not self.unknown and not self.further

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The level of each model on each dataset."""
        return tuple(levels(self.record))

    @property
    def leads(self) -> list[tuple[str, bool]]:
        """The line on each model, with whether a green sign may stand beside it."""
        several = len({(level.model, level.dataset) for level in self.levels}) > 1
        return [
            (
                f"{level.model} on {level.dataset}: {level.text}" if several else level.text,
                level.good,
            )
            for level in self.levels
        ]

    @property
    def sign(self) -> str:
        """`fail`; `pass` if every model is on a good level; else `plain`: the gate let it pass."""
        if not self.green:
            return "fail"
        return "pass" if self.levels and all(level.good for level in self.levels) else "plain"

    @property
    def headline(self) -> str:
        """`10 of 15 cases passed; 2 failed, 1 undecided: 6.4 (1.1 to 11.7) points; failed: ...`."""
        if not self.lines and not self.unknown:
            return "No case ran"
        counts = self.counts
        total = sum(counts.values())
        rest = [f"{counts[status]} {WORDS[status]}" for status in STATUSES[:-1] if counts[status]]
        rest = [f"{text}: {self.losses}" if text.endswith("undecided") else text for text in rest]
        head = f"{counts['pass']} of {count(total, 'case')} passed"
        if not rest and total > 1:
            head = f"All {total} cases passed"
        further = [f"failed: {', '.join(row.name for row in self.further)}"] * bool(self.further)
        return "; ".join([head, *([", ".join(rest)] if rest else []), *further])

    @property
    def losses(self) -> str:
        """Losses of undecided cases, the largest first: `6.4 (1.1 to 11.7) and 3.0 points`."""
        comparisons = [
            line.comparison
            for line in self.lines
            if line.status == "inconclusive" and line.comparison is not None
        ]
        comparisons.sort(key=lambda comparison: -(comparison.loss or 0.0))
        texts = [
            f"{comparison.loss or 0.0:.1f}{_interval(comparison)}" for comparison in comparisons
        ]
        if texts[SHOWN:]:
            texts[SHOWN:] = [f"{len(texts) - SHOWN} more"]
        return f"{enumerated(texts)} points"

    @property
    def named_curves(self) -> list[tuple[str, Curve]]:
        """The drops by budget with their names: ids, after `model@` in a run of several models."""
        several = len({row.outcome.model for row in self.rows if row.outcome is not None}) > 1
        return [
            (f"{curve.model}@{curve.id}" if several else curve.id, curve)
            for curve in self.summary.curves
        ]

    @property
    def graph_sets(self) -> set[str]:
        """Names of the datasets that are sets of graphs."""
        return {dataset.name for dataset in self.record.settings.datasets if dataset.of_graphs}

    def name_of(self, line: Line) -> str:
        """Return the id of a case, with the model in a run of several, and a user's own test."""
        case = line.row.case
        name = case.id if case.model or not self.several_models else f"{line.model}@{case.id}"
        return f"{name} ({line.test})" if line.test else name

    def title_of(self, group: tuple[str, str]) -> str:
        """Return `dataset`, or `model on dataset` in a run of several models."""
        model, dataset = group
        return fit(f"{model} on {dataset}" if self.several_models else dataset)

    def ids_of(self, group: tuple[str, str]) -> set[str]:
        """Return what precedes the difficulty in ids of the group, with its model and without.

        Without it, ids name the group of the built-in cases, beside which users' own tests may
        have other models.
        """
        model, dataset = group
        labels = {line.row.case.model for line in self.groups.get(group, ())} | {model}
        built_in = {
            line.group
            for line in self.lines
            if line.row.case.dataset == dataset and is_node_id(line.row.node_id)
        }
        plain = {dataset} if group in built_in or not built_in else set()
        return plain | {f"{label}@{dataset}" for label in labels if label}


def digest(record: RunRecord, name: str = "") -> Digest:
    """Return the view of a record.

    Args:
        record: of the run.
        name: of the record, for reports about several.
    """
    models = record.settings.models
    alone = models[0].label if len(models) == 1 else ""
    names = {
        (row.case.model, row.case.dataset): row.outcome.model
        for row in record.cases
        if row.outcome is not None
    }
    missing = set(record.missing)
    rows = with_lost(record.cases, record.missing, LOST)
    rows.sort(key=lambda row: (row.case.order, row.node_id))
    lines = []
    for number, row in enumerate(rows):
        model = row.outcome.model if row.outcome is not None else ""
        model = model or names.get((row.case.model, row.case.dataset)) or row.case.model or alone
        # The case of a dead worker has a row and is missing.
        status: Status = "missing" if row.node_id in missing else _status(row)
        lines.append(
            Line(
                number=number,
                row=row,
                model=fit(model),
                status=status,
                first=fit(_first(row, status)) if status not in FINE else "",
                text=fit(row.message),
                standings=record.ranks.of_cases.get(row.node_id, ()),
            )
        )
    known = {row.node_id for row in rows}
    unknown = tuple(fit(node_id) for node_id in record.missing if node_id not in known)
    return Digest(record=record, lines=tuple(lines), unknown=unknown, name=name)


def _interval(comparison: Comparison) -> str:
    """The interval of a loss in brackets; empty without one."""
    if comparison.interval is None:
        return ""
    low, high = comparison.interval
    return f" ({low:.1f} to {high:.1f})"


def changes_in(lines: Iterable[Line]) -> list[str]:
    """Return what lies between data and model in cases of one model and dataset, each once."""
    outcomes = [line.row.outcome for line in lines if line.row.outcome is not None]
    return list(dict.fromkeys(fit(text) for outcome in outcomes for text in outcome.changes))


def limits_of(record: RunRecord) -> list[tuple[str, str]]:
    """Return what was given of limits, baselines and ranks with origins, and the default limit."""
    settings = record.settings
    rows = describe_given(settings.given, settings.origins, ("limits", "baselines", "ranks"))
    if settings.gate.max_drop is None:
        judged = ", where no baseline judges" if record.baseline is not None else ""
        default = f"drop of the least robust reference, a margin and the interval{judged}"
        rows.append((default, "default"))
    return [(fit(text), fit(origin)) for text, origin in rows]


def compared(digest: Digest) -> list[Line]:
    """Return the cases that were compared with the baseline, the worst results first."""
    order = ("fail", "inconclusive", "incomparable", "new", "within", "pass", "equal")
    result = [(line, line.comparison) for line in digest.lines]
    known = [
        (order.index(comparison.result), line)
        for line, comparison in result
        if comparison is not None
    ]
    return [line for _, line in sorted(known, key=lambda entry: entry[0])]
