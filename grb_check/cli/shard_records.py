"""The parts of one run: their records, and whether they belong together. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from grb_check.cases.case import case_of, is_node_id
from grb_check.cases.expected_cases import Row
from grb_check.cases.shards import Plan
from grb_check.errors import UsageError, one_line
from grb_check.reports.records import rows_of
from grb_check.settings.raw_values import split_at_commas

_COMPARED: Final = ("margin", "alpha", "tests", "digest")  # with what, and how
# Where it ran, which may differ from machine to machine.
ELSEWHERE: Final = ("device", "data", "download", "origins")


@dataclass(frozen=True, kw_only=True)
class Part:
    """The record of a part, and the file that it is from."""

    name: str
    record: Mapping[str, Any]

    @property
    def rows(self) -> list[Row]:
        """The cases that came back."""
        return rows_of(self.record)


def check_fit(part: Part) -> None:
    """Refuse a record that does not say what was planned.

    Raises:
        UsageError: names the file and what it lacks.
    """
    try:
        shard = part.record["shard"] or {"index": 1, "count": 1, "plan": ""}
        fit = (
            all(case_of(each["node_id"]) and each["id"] for each in part.record["planned"])
            and {*map(type, part.record["deselected"])} <= {str}
            and 1 <= shard["index"] <= shard["count"]
            and isinstance(shard["plan"], str)
        )
        why = "" if fit else "its plan is none"
    except (KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {one_line(error)}"
    if why:
        raise UsageError(
            f"{part.name} does not tell which cases the whole run has ({why}): it is damaged or of "
            f"an earlier version of grb_check; run that part again"
        )


def check_alike(parts: Sequence[Part]) -> None:
    """Refuse parts that are not of one run.

    Raises:
        UsageError: names two files and what differs.
    """
    first = parts[0]
    for other in parts[1:]:
        ours, theirs = _told(first.record), _told(other.record)
        for what in (*ours, *(each for each in theirs if each not in ours)):
            if ours.get(what) != theirs.get(what):
                raise UsageError(
                    f"{first.name} and {other.name} are no parts of one run: {what} is "
                    f"{ours.get(what)!r} and {theirs.get(what)!r}; run all parts with the same "
                    f"settings and the same version of grb_check"
                )
        _check_cut(first, other)


def joined_rows(parts: Sequence[Part]) -> list[Row]:
    """The rows of all parts in the order of reports.

    Raises:
        UsageError: a case is in two parts.
    """
    rows: dict[str, tuple[str, Row]] = {}
    for part in parts:
        for row in part.rows:
            if row.node_id in rows:
                what = "case" if is_node_id(row.node_id) else "test of the repository's own"
                cure = "" if is_node_id(row.node_id) else "run the parts with --grb-only, and "
                raise UsageError(
                    f"the {what} {row.node_id} is in {rows[row.node_id][0]} and in {part.name}; "
                    f"{cure}give each part once"
                )
            rows[row.node_id] = (part.name, row)
    joined = (row for _, row in rows.values())
    return sorted(joined, key=lambda row: (row.case.order, row.node_id))


def joined_plan(parts: Sequence[Part], rows: Sequence[Row]) -> Plan:
    """The plan of the whole run; a case that one part left out and another has counts as run."""
    back = {row.case.id for row in rows}
    left_out = {each for part in parts for each in part.record["deselected"]} - back
    named = (case_of(each["node_id"]) for each in parts[0].record["planned"])
    planned = [case for case in named if case is not None]
    return Plan(
        cases=tuple(planned),
        own=tuple(planned),
        deselected=tuple(case.id for case in planned if case.id in left_out),
    )


def joined_missing(parts: Sequence[Part], rows: Sequence[Row], plan: Plan) -> list[str]:
    """Node ids of the cases that no part has a verdict on."""
    lost = {each for part in parts for each in part.record["missing"]}
    known = {row.case.id for row in rows} | set(plan.deselected)
    never = (each for each in parts[0].record["planned"] if each["id"] not in known)
    return sorted(lost | {each["node_id"] for each in never})


def absent(parts: Sequence[Part]) -> list[str]:
    """The parts that were not given, as `3/4`."""
    shards = [part.record["shard"] for part in parts if part.record["shard"] is not None]
    if not shards:
        return []
    count, here = shards[0]["count"], {each["index"] for each in shards}
    return [f"{index}/{count}" for index in range(1, count + 1) if index not in here]


def joined_environment(parts: Sequence[Part]) -> dict[str, str]:
    """The versions; where parts differ, all of them."""
    seen: dict[str, dict[str, None]] = {}
    for part in parts:
        for name, version in part.record["environment"].items():
            seen.setdefault(name, {})[str(version)] = None
    return {name: " and ".join(versions) for name, versions in seen.items()}


def _told(record: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same in all parts, by its name in messages."""
    settings = {key: value for key, value in record["settings"].items() if key not in ELSEWHERE}
    boards = split_at_commas([settings["rank_against"]])
    settings["rank_against"] = [PurePath(each.replace("\\", "/")).name for each in boards]
    kept = record.get("baseline") or {}
    told = {"grb_check": record["grb_check"], "format": record["format"], **settings}
    return told | {f"baseline {key}": kept.get(key) for key in _COMPARED}


def _check_cut(first: Part, other: Part) -> None:
    """The same cases, cut in the same way."""
    cuts = [(each.record["shard"] or {}) for each in (first, other)]
    plans = [(each.get("count"), each.get("plan")) for each in cuts]
    ids = [[each["id"] for each in part.record["planned"]] for part in (first, other)]
    if plans[0] != plans[1] or ids[0] != ids[1]:
        ours, theirs = (
            f"{len(named)} cases in {count or 1} part{'' if (count or 1) == 1 else 's'}"
            for named, (count, _) in zip(ids, plans, strict=True)
        )
        raise UsageError(
            f"{first.name} and {other.name} were cut differently ({ours}, and {theirs}), so that "
            f"cases may be lacking or doubled; give all parts the same options, and the same file "
            f"for --grb-durations"
        )
