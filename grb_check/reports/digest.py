"""What all reports that people read tell of a run, taken from its record alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import msgspec

from grb_check.cases.case import is_node_id
from grb_check.cases.expected_cases import Ledger, Row
from grb_check.failures.counter_example_text import CounterExample
from grb_check.ranking.standing import Neighbour, Standing
from grb_check.ranking.comparison_models import PUBLISHED
from grb_check.reports.rank_words import sentence
from grb_check.reports.plain import count, fit
from grb_check.reports.records import Record, lost_rows, rows_of

Status: TypeAlias = Literal["fail", "error", "missing", "inconclusive", "skip", "pass"]

# In the order in which people want to hear of them.
STATUSES: Final[tuple[Status, ...]] = ("fail", "error", "missing", "inconclusive", "skip", "pass")
WORDS: Final[Mapping[Status, str]] = {
    "fail": "failed",
    "error": "ended in an error",
    "missing": "never came back",
    "inconclusive": "inconclusive",
    "skip": "skipped",
    "pass": "passed",
}
BAD: Final[frozenset[Status]] = frozenset(("fail", "error", "missing"))
FAIL: Final = "fail"  # of a comparison with the baseline


@dataclass(frozen=True, kw_only=True)
class Line:
    """One case in the reports.

    Attributes:
        number: from 0 on, in the order of the reports.
        row: what came back.
        model: its name, for people.
        status: the verdict; `inconclusive` passed, and its repeats cannot tell whether it is worse
            than the baseline.
        first: why, in one line; empty where all is well.
        text: the whole message.
    """

    number: int
    row: Row
    model: str
    status: Status
    first: str
    text: str

    @property
    def group(self) -> tuple[str, str]:
        """Model and dataset."""
        return self.model, self.row.case.dataset

    @property
    def attack(self) -> str:
        """`scenario/attack`."""
        return f"{self.row.case.scenario}/{self.row.case.attack}"

    @property
    def limit(self) -> float | None:
        """The largest drop that passes."""
        return self.row.verdict["limit"] if self.row.verdict else None

    @property
    def excess(self) -> float:
        """How far the drop is beyond its limit; 0 where that is not why the case failed."""
        if self.row.outcome is None or self.limit is None or self.row.below_floor:
            return 0.0
        return max(0.0, self.row.outcome.drop - self.limit)

    @property
    def severity(self) -> float:
        """By which failures are ordered: the excess, else the accuracy lost to the baseline."""
        return self.excess or ((self.comparison or {}).get("loss") or 0.0) / 100

    @property
    def comparison(self) -> Mapping[str, Any] | None:
        """With the baseline."""
        return (self.row.verdict or {}).get("comparison")

    @property
    def replay(self) -> str:
        """The command that shows the same figures again; empty where nothing was kept."""
        return (self.row.evidence or {}).get("replay") or ""

    @property
    def smallest(self) -> CounterExample | None:
        """The smallest counter-example."""
        found = (self.row.evidence or {}).get("smallest")
        return None if found is None else msgspec.convert(found, CounterExample)


@dataclass(frozen=True, kw_only=True)
class Digest:
    """A run as its reports show it.

    Attributes:
        record: of the run.
        rows: the cases that came back.
        lines: these, and those that did not.
        unknown: node ids that never came back and that name no case, as of users' own tests.
        name: of the record, where a report is about several; else empty.
    """

    record: Record
    rows: tuple[Row, ...]
    lines: tuple[Line, ...]
    unknown: tuple[str, ...]
    name: str = ""

    @cached_property
    def counts(self) -> dict[Status, int]:
        """How many cases of each kind, zeros included."""
        found = Counter(line.status for line in self.lines)
        found["missing"] += len(self.unknown)
        return {status: found[status] for status in STATUSES}

    @cached_property
    def groups(self) -> dict[tuple[str, str], list[Line]]:
        """(model, dataset) -> its cases, in order."""
        found: dict[tuple[str, str], list[Line]] = {}
        for line in self.lines:
            found.setdefault(line.group, []).append(line)
        return found

    @cached_property
    def bad(self) -> list[Line]:
        """What keeps the run from being green, the farthest beyond its limit first."""
        found = [line for line in self.lines if line.status in BAD]
        return sorted(found, key=lambda line: (STATUSES.index(line.status), -line.severity))

    @property
    def trouble(self) -> str:
        """Title of what wants to be looked at first."""
        return "What broke" if self.bad or self.unknown else "What cannot be told"

    @property
    def several_models(self) -> bool:
        """Whether names of models are needed."""
        return len({model for model, _ in self.groups}) > 1

    @property
    def baseline(self) -> Mapping[str, Any] | None:
        """What the run was compared with."""
        return self.record.get("baseline")

    @property
    def shard(self) -> Mapping[str, Any] | None:
        """Which part of a run this is."""
        return self.record.get("shard")

    @property
    def unasked(self) -> str:
        """That a baseline was written because there was none, which a person has to commit."""
        about = self.baseline or {}
        if not about.get("written") or about.get("asked"):
            return ""
        return (
            f"there was no baseline; it was written to {about.get('path')}: look at it, commit it"
        )

    @cached_property
    def torn(self) -> dict[str, str]:
        """Datasets that were another graph in some cases -> what is to be said of it."""
        told = "its cases saw different graphs and cannot be compared; seed the function that makes"
        entries = {row.node_id: row for row in self.rows}
        return {name: f"dataset {name}: {told} it" for name in Ledger(entries=entries).torn}

    @cached_property
    def further(self) -> list[str]:
        """What else failed: limits on ranks, all cases together against the baseline, data."""
        ranks = self.record["ranks"].get("verdicts", ())
        found = [str(each["message"]) for each in ranks if each["passed"] is False]
        for each in (self.baseline or {}).get("together", ()):
            if each["result"] == FAIL:
                found.append(f"all cases of {each['name']} together: {each['text']}")
        found += [self.unasked] if self.unasked else []
        found += self.torn.values()
        return [fit(text) for text in found]

    @property
    def green(self) -> bool:
        """Whether nothing failed and something ran."""
        return bool(self.lines) and not self.bad and not self.unknown and not self.further

    @property
    def headline(self) -> str:
        """`12 of 15 cases passed; 2 failed, 1 inconclusive`."""
        if not self.lines and not self.unknown:
            return "No case ran"
        counts = self.counts
        total = sum(counts.values())
        rest = [f"{counts[each]} {WORDS[each]}" for each in STATUSES[:-1] if counts[each]]
        head = f"{counts['pass']} of {count(total, 'case')} passed"
        if not rest and total > 1:
            head = f"All {total} cases passed"
        return "; ".join([head, ", ".join(rest)] if rest else [head])

    def name_of(self, line: Line) -> str:
        """Its id, with the model where the run has several."""
        case = line.row.case
        return case.id if case.model or not self.several_models else f"{line.model}@{case.id}"

    def title_of(self, group: tuple[str, str]) -> str:
        """`dataset`, or `model on dataset` where the run has several models."""
        model, dataset = group
        return fit(f"{model} on {dataset}" if self.several_models else dataset)

    def ids_of(self, group: tuple[str, str]) -> set[str]:
        """What stands before the difficulty in ids of the group, with its model and without.

        Without, it is the group of the built-in cases, where users' own tests have other models.
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


def digest(record: Record, name: str = "") -> Digest:
    """Read a record that `records.check` let pass, or that the run has just made.

    Args:
        record: of the run.
        name: of the record, where a report is about several.
    """
    rows, lost = rows_of(record), lost_rows(record)
    models = record["settings"].get("models") or []
    alone = str(models[0]["label"]) if len(models) == 1 else ""
    names = {(row.case.model, row.case.dataset): row.outcome.model for row in rows if row.outcome}
    missing, back = set(record["missing"]), {row.node_id for row in rows}
    every = [(row, row.node_id in missing) for row in rows]  # a dead worker's case has a row
    every += [(row, True) for row in lost if row.node_id not in back]
    every.sort(key=lambda entry: (entry[0].case.order, entry[0].node_id))
    lines = []
    for number, (row, is_lost) in enumerate(every):
        model = row.outcome.model if row.outcome is not None else ""
        model = model or names.get((row.case.model, row.case.dataset)) or row.case.model or alone
        status: Status = "missing" if is_lost else _status(row)
        lines.append(
            Line(
                number=number,
                row=row,
                model=fit(model),
                status=status,
                first=fit(_first(row)) if status != "pass" else "",
                text=fit(row.message),
            )
        )
    known = {row.node_id for row in lost}
    unknown = tuple(fit(each) for each in record["missing"] if each not in known)
    return Digest(record=record, rows=tuple(rows), lines=tuple(lines), unknown=unknown, name=name)


def standing(record: Mapping[str, Any]) -> Standing:
    """A place on a leaderboard, from its record.

    Raises:
        KeyError: it is one of no place.
    """
    values = {each.name: record[each.name] for each in fields(Standing)}
    for side in ("better", "worse"):
        values[side] = None if record[side] is None else Neighbour(**record[side])
    return Standing(**{**values, "missing": tuple(record["missing"])})


def place_line(record: Mapping[str, Any], several: bool) -> str:
    """Where a model stands on a dataset at a difficulty, in words, or why it stands nowhere."""
    where, name = f"{record['dataset']}/{record['difficulty']}", str(record["model"])
    of = f" of {name}" if several else ""
    if record.get("rank") is None:
        return fit(f"no rank{of} on {where}: {record.get('reason', '')}")
    place = standing(record)
    told = "where it would stand" if place.board == PUBLISHED else "rank"
    return fit(f"{told}{of} on {where}: {sentence(place)}")


def gate_lines(record: Record) -> list[tuple[str, str]]:
    """The limits in force, and where each came from."""
    settings, kept = record["settings"], record.get("baseline") or {}
    gate, origins = settings.get("gate") or {}, settings.get("origins") or {}
    rows = [
        (f"drop at most {each['limit']:.1%} for {each['pattern']}", origins.get("grb_threshold"))
        for each in gate.get("thresholds") or ()
    ]
    if gate.get("max_drop") is not None:
        rows.append((f"drop at most {gate['max_drop']:.1%}", origins.get("grb_max_drop")))
    else:
        judged = ", where no baseline judges" if kept else ""
        told = f"drop of the reference GCN, a margin and the interval{judged}"
        rows.append((told, "default"))
    if gate.get("min_clean") is not None:
        least = f"clean accuracy at least {gate['min_clean']:.1%}"
        rows.append((least, origins.get("grb_min_clean")))
    if kept.get("margin") is not None and not kept.get("written"):
        least = f"loss of at most {kept['margin']:g} points, where the baseline has the case"
        rows.append((least, origins.get("grb_margin")))
    for each in settings.get("rank_limits") or ():
        limit = f"rank at most {each['rank']} for {each['pattern']}"
        rows.append((limit, origins.get("grb_min_rank")))
    if gate.get("strict_diagnostics"):
        rows.append(("no finding of a diagnostic", origins.get("grb_strict_diagnostics")))
    return [(fit(text), fit(origin or "")) for text, origin in rows]


def compared(digest: Digest) -> list[Line]:
    """The cases that were compared with the baseline, what wants to be seen first."""
    order = ("fail", "inconclusive", "incomparable", "new", "pass", "equal")
    found = [line for line in digest.lines if line.comparison]
    return sorted(found, key=lambda line: order.index((line.comparison or {})["result"]))


def _status(row: Row) -> Status:
    comparison = (row.verdict or {}).get("comparison") or {}
    if row.result == "pass" and comparison.get("result") == "inconclusive":
        return "inconclusive"
    return row.result


def _first(row: Row) -> str:
    """The line that says why: the gate's, or an assertion's, or the first that there is."""
    verdict = row.verdict or {}
    comparison = verdict.get("comparison") or {}
    told = verdict.get("message") if not verdict.get("passed", True) else ""
    if not told and row.result == "pass" and comparison.get("result") == "inconclusive":
        told = comparison.get("text")
    text = [line.strip() for line in (told or row.message).splitlines() if line.strip()]
    raised = [line[1:].strip() for line in text if line.startswith("E ")]
    return next(iter((not told and raised) or text), "")
