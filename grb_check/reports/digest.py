"""A run as its reports show it: terminal, HTML, Markdown and JUnit. Made from the record alone.

What follows from a run record: figures of cases, lowest accuracies, averages, curves, orders.

Formed when a report is made. The file of a record holds it, too, in a section for other programs,
which is ignored when the file is read. Loads no torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, get_args

from grb_check.cases.case import is_node_id
from grb_check.cases.case_record import CaseRecord, each_once, inconsistent, with_lost
from grb_check.cases.counter_example import CounterExample
from grb_check.cases.verdicts import Comparison
from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.ranking.averages import Averages, Curve, averages, curves
from grb_check.ranking.lowest import Delta, Lowest, deltas, lowest
from grb_check.ranking.ranks import (
    RankedEntry,
    Standing,
    by_effect,
    by_robustness,
    comparisons,
    mean_by_attack,
)
from grb_check.reports.audit_words import conclusions
from grb_check.reports.record import BaselineRecord, RunRecord, ShardRecord
from grb_check.settings.settings import describe_given

# Of an `Outcome`, over its repeats.
FIGURES: Final = (
    *("model", "targets", "clean", "attacked", "drop", "drop_deviation", "per_target", "budget"),
    *("reference_clean", "reference_drop", "seconds"),
)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What follows from a run record.

    Attributes:
        cases: `id`, `node_id`, `result` and `FIGURES` of each case that has figures.
        lowest: accuracy under the strongest attack.
        delta: drops compared with those of a reference.
        averages: GRB's summaries over attacks.
        curves: drops by budget.
        attacks: `[model@]dataset/difficulty` -> attacks by drop, the strongest first.
        mean_attacks: attacks by their mean drop over all cases, the strongest first.
        models: models by mean drop, the most robust first.
        models_black_box: the same over the attacks that do not see the model.
        models_adaptive: the same over the attacks that do.
        comparisons: `dataset/difficulty` -> models by weighted accuracy, the best first;
            `dataset/difficulty/scenario/attack` -> models by accuracy under that attack.
    """

    cases: tuple[Mapping[str, Any], ...]
    lowest: tuple[Lowest, ...]
    delta: tuple[Delta, ...]
    averages: tuple[Averages, ...]
    curves: tuple[Curve, ...]
    attacks: Mapping[str, tuple[RankedEntry, ...]]
    mean_attacks: tuple[RankedEntry, ...]
    models: tuple[RankedEntry, ...]
    models_black_box: tuple[RankedEntry, ...]
    models_adaptive: tuple[RankedEntry, ...]
    comparisons: Mapping[str, tuple[RankedEntry, ...]]


def summary_of(record: RunRecord) -> Summary:
    """Return what follows from a record."""
    rows = record.cases
    counted = each_once(rows)
    return Summary(
        cases=tuple(_figures(row) for row in rows if row.outcome is not None),
        lowest=tuple(lowest(counted)),
        delta=tuple(deltas(counted)),
        averages=tuple(averages(each_once(with_lost(rows, record.missing)))),
        curves=tuple(curves(counted)),
        attacks={
            f"{model}@{group}" if model else group: tuple(ranked)
            for (model, group), ranked in by_effect(counted).items()
        },
        mean_attacks=tuple(mean_by_attack(counted)),
        models=tuple(by_robustness(counted)),
        models_black_box=tuple(by_robustness(counted, adaptive=False)),
        models_adaptive=tuple(by_robustness(counted, adaptive=True)),
        comparisons=comparisons(rows, record.missing, record.settings.gate),
    )


def _figures(row: CaseRecord) -> Mapping[str, Any]:
    head = {"id": row.case.id, "node_id": row.node_id, "result": row.result}
    return head | {name: getattr(row.outcome, name) for name in FIGURES}


Status: TypeAlias = Literal[
    "fail",
    "error",
    "missing",
    "warn",
    "inconclusive",
    "xpass",
    "xfail",
    "skip",
    "pass",
]

# In the order of interest to people.
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
WORDS: Final[Mapping[Status, str]] = {
    "fail": "failed",
    "error": "ended in an error",
    "missing": "never came back",
    "warn": "warned",
    "inconclusive": "inconclusive",
    "xpass": "passed unexpectedly",
    "xfail": "failed as expected",
    "skip": "skipped",
    "pass": "passed",
}
BAD: Final[frozenset[Status]] = frozenset(("fail", "error", "missing"))
# Tests that pass, though nothing shows that the model is robust; the reason is in `Line.first`.
UNSURE: Final[frozenset[Status]] = frozenset(("warn", "inconclusive"))
LOST: Final = (
    "never came back: its worker died, its report could not travel, or the run was stopped"
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One case in the reports.

    Attributes:
        number: place in the reports, from 0.
        row: its record.
        model: name of the model.
        status: the verdict; those in `UNSURE` passed, and `inconclusive` is about the baseline;
            `xfail` and `xpass` are of cases that are expected to fail.
        first: the reason in one line; empty for a case that passed.
        text: the whole message.
        standings: ranks under the attack, on each leaderboard that has it.
    """

    number: int
    row: CaseRecord
    model: str
    status: Status
    first: str
    text: str
    standings: tuple[Standing, ...] = ()

    @property
    def group(self) -> tuple[str, str]:
        """Model and dataset."""
        return self.model, self.row.case.dataset

    @property
    def attack(self) -> str:
        """`scenario/attack`."""
        return f"{self.row.case.scenario}/{self.row.case.attack}"

    @property
    def test(self) -> str:
        """Node id of a user's own test, without parameters; empty for a built-in case."""
        result = self.row.node_id
        return "" if is_node_id(result) else fit(result.partition("[")[0])

    @property
    def limit(self) -> float | None:
        """The largest drop that passes."""
        return self.row.verdict.limit if self.row.verdict is not None else None

    @property
    def unlimited(self) -> bool:
        """Whether nothing could have failed it."""
        return self.row.verdict is not None and self.row.verdict.unlimited

    @property
    def excess(self) -> float:
        """Return how far the drop exceeds its limit; 0 if the case failed for another reason."""
        if self.row.outcome is None or self.limit is None or self.row.below_floor:
            return 0.0
        return max(0.0, self.row.outcome.drop - self.limit)

    @property
    def severity(self) -> float:
        """Order of failures: the excess, else the accuracy lost to the baseline."""
        lost = self.comparison.loss if self.comparison is not None else None
        return self.excess or (lost or 0.0) / 100

    @property
    def comparison(self) -> Comparison | None:
        """The verdict of the baseline."""
        return self.row.comparison

    @property
    def replay(self) -> str:
        """The command that repeats the case; empty if nothing was kept."""
        return self.row.evidence.replay if self.row.evidence is not None else ""

    @property
    def smallest(self) -> CounterExample | None:
        """The smallest counter-example."""
        return self.row.evidence.smallest if self.row.evidence is not None else None


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
        """What follows from the record."""
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
        if self.baseline is None or not self.baseline.written or self.baseline.asked:
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
            for conclusion in conclusions(self.record)
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

    @property
    def headline(self) -> str:
        """`12 of 15 cases passed, 3 without a limit; 2 failed; failed: audit on cora`."""
        if not self.lines and not self.unknown:
            return "No case ran"
        counts = self.counts
        total = sum(counts.values())
        rest = [f"{counts[status]} {WORDS[status]}" for status in STATUSES[:-1] if counts[status]]
        head = f"{counts['pass']} of {count(total, 'case')} passed"
        if not rest and total > 1:
            head = f"All {total} cases passed"
        unlimited = sum(line.status == "pass" and line.unlimited for line in self.lines)
        if unlimited:
            head += f", {unlimited} without a limit"
        further = [f"failed: {', '.join(row.name for row in self.further)}"] * bool(self.further)
        return "; ".join([head, *([", ".join(rest)] if rest else []), *further])

    @property
    def named_curves(self) -> list[tuple[str, Curve]]:
        """The drops by budget with their names: ids, after `model@` in a run of several models."""
        several = len({row.outcome.model for row in self.rows if row.outcome is not None}) > 1
        return [
            (f"{curve.model}@{curve.id}" if several else curve.id, curve)
            for curve in self.summary.curves
        ]

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
                first=fit(_first(row, status)) if status != "pass" else "",
                text=fit(row.message),
                standings=record.ranks.of_cases.get(row.node_id, ()),
            )
        )
    known = {row.node_id for row in rows}
    unknown = tuple(fit(node_id) for node_id in record.missing if node_id not in known)
    return Digest(record=record, lines=tuple(lines), unknown=unknown, name=name)


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
    order = ("fail", "inconclusive", "incomparable", "new", "pass", "equal")
    result = [(line, line.comparison) for line in digest.lines]
    known = [
        (order.index(comparison.result), line)
        for line, comparison in result
        if comparison is not None
    ]
    return [line for _, line in sorted(known, key=lambda entry: entry[0])]


def _status(row: CaseRecord) -> Status:
    if row.result != "pass":
        return row.result
    verdict = row.verdict.result if row.verdict is not None else "pass"
    result: set[Status] = {"inconclusive"} if _is_inconclusive(row) else set()
    result.add("pass" if verdict == "fail" else verdict)  # a test of the user may pass all the same
    return min(result, key=STATUSES.index)


def _is_inconclusive(row: CaseRecord) -> bool:
    compared = row.comparison
    return row.result == "pass" and compared is not None and compared.result == "inconclusive"


def _first(row: CaseRecord, status: Status) -> str:
    """The line that gives the reason: the gate's, an assertion's, or the first of the message."""
    reported = ""
    if row.result in ("xfail", "xpass"):
        reported = f"expected failure: {row.message}"
    elif row.unexpected_pass:
        reported = row.message
    elif status == "inconclusive" and row.comparison is not None:
        reported = row.comparison.text
    elif row.verdict is not None and row.verdict.result != "pass":
        reported = row.verdict.message
    text = [line.strip() for line in (reported or row.message).splitlines() if line.strip()]
    raised = [line[1:].strip() for line in text if line.startswith("E ")]
    return next(iter((not reported and raised) or text), "")
