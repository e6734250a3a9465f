"""The records of the parts of one run: whether they belong together, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final

import msgspec

from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import case_of, is_node_id
from grb_check.cases.shards import RunCases
from grb_check.errors import UsageError, count
from grb_check.reports.record import Definition, RunRecord
from grb_check.settings.model_specs import ModelSpec

# Settings of the machine, which may differ from part to part.
OF_THE_MACHINE: Final = (
    *("device", "data", "download", "given", "origins"),
    *("pack", "pack_digest", "baseline", "base"),  # compared below, and as versions
)
_COMPARED: Final = ("margin", "alpha", "tests", "digest")  # of the baseline


@dataclass(frozen=True, kw_only=True)
class PartRecord:
    """The record of a part, and the name of its file."""

    name: str
    record: RunRecord


def check_alike(parts: Sequence[PartRecord]) -> None:
    """Refuse parts that are not of one run.

    Raises:
        UsageError: names two files and what differs.
    """
    first = parts[0]
    for other in parts[1:]:
        ours, theirs = _shared(first.record), _shared(other.record)
        for what in ours:
            if ours[what] != theirs[what]:
                raise UsageError(
                    f"{first.name} and {other.name} are not parts of one run: {what} is "
                    f"{ours[what]!r} and {theirs[what]!r}; run all parts with the same settings"
                )
        _check_cut(first, other)


def joined_rows(parts: Sequence[PartRecord]) -> list[CaseRecord]:
    """Return the cases of all parts in the order of reports.

    Raises:
        UsageError: a case is in two parts.
    """
    rows: dict[str, tuple[str, CaseRecord]] = {}
    for part in parts:
        for row in part.record.cases:
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


def joined_cases(parts: Sequence[PartRecord], rows: Sequence[CaseRecord]) -> RunCases:
    """Return the cases of the whole run.

    A case that one part left out and another one ran counts as run.
    """
    reported = {row.case.id for row in rows}
    left_out = {case_id for part in parts for case_id in part.record.deselected} - reported
    named = (case_of(row.node_id) for row in parts[0].record.planned)
    planned = tuple(case for case in named if case is not None)
    return RunCases(
        cases=planned,
        part=planned,
        deselected=tuple(case.id for case in planned if case.id in left_out),
    )


def joined_missing(
    parts: Sequence[PartRecord], rows: Sequence[CaseRecord], run_cases: RunCases
) -> list[str]:
    """Return node ids of the cases on which no part has a verdict."""
    lost = {node_id for part in parts for node_id in part.record.missing}
    known = {row.case.id for row in rows} | set(run_cases.deselected)
    never = (row.node_id for row in parts[0].record.planned if row.id not in known)
    return sorted(lost | set(never))


def absent(parts: Sequence[PartRecord]) -> list[str]:
    """Return the parts that were not given, as `3/4`."""
    shards = [part.record.shard for part in parts if part.record.shard is not None]
    if not shards:
        return []
    number, given = shards[0].count, {shard.index for shard in shards}
    return [f"{index}/{number}" for index in range(1, number + 1) if index not in given]


def unfinished(parts: Sequence[PartRecord]) -> list[str]:
    """Return the parts that were not given, or that lost cases, as `3/4`.

    Raises:
        UsageError: they are not of one run, or one is no shard.
    """
    check_alike(parts)
    lacking = set(absent(parts))
    for part in parts:
        shard = part.record.shard
        if shard is None:
            raise UsageError(
                f"{part.name} is of a whole run; --missing is for parts that --grb-shard=I/N made, "
                f"and a run goes on with --grb-resume"
            )
        if part.record.missing:
            lacking.add(f"{shard.index}/{shard.count}")
    return sorted(lacking, key=lambda part: int(part.partition("/")[0]))


def joined_environment(parts: Sequence[PartRecord]) -> dict[str, str]:
    """Return the versions; all of them if parts differ."""
    seen: dict[str, dict[str, None]] = {}
    for part in parts:
        for name, version in part.record.environment.items():
            seen.setdefault(name, {})[version] = None
    return {name: " and ".join(versions) for name, versions in seen.items()}


def joined_models(parts: Sequence[PartRecord]) -> tuple[ModelSpec, ...]:
    """Return the models of the run; all sources if parts differ."""
    of_parts = zip(*(part.record.settings.models for part in parts), strict=True)
    return tuple(
        replace(models[0], source=" and ".join(dict.fromkeys(model.source for model in models)))
        for models in of_parts
    )


def joined_definitions(parts: Sequence[PartRecord]) -> dict[str, Definition]:
    """Return where factories are defined; a part without cases of a model does not know it."""
    return {
        label: definition
        for part in reversed(parts)
        for label, definition in part.record.definitions.items()
    }


def _shared(record: RunRecord) -> Mapping[str, Any]:
    """Return the values that must be equal in all shards, by their names in messages."""
    settings: dict[str, Any] = msgspec.to_builtins(record.settings)
    for option in OF_THE_MACHINE:
        del settings[option]
    for model in settings["models"]:
        del model["source"]  # see `merge`
    for dataset in settings["datasets"]:
        del dataset["given"]
    boards = settings["comparison_models"]
    boards["files"] = [PurePath(file.replace("\\", "/")).name for file in boards["files"]]
    baseline = record.baseline
    compared = {f"baseline {name}": baseline and getattr(baseline, name) for name in _COMPARED}
    if baseline is not None and baseline.base is not None:
        compared["base"] = baseline.path
        compared["base has the same files"] = baseline.base.same
    return {**settings, **compared}


def _check_cut(first: PartRecord, other: PartRecord) -> None:
    """Refuse parts of other cases, or cut in another way."""
    cuts = [
        (part.record.shard.count, part.record.shard.plan) if part.record.shard else (1, "")
        for part in (first, other)
    ]
    ids = [[row.id for row in part.record.planned] for part in (first, other)]
    if cuts[0] != cuts[1] or ids[0] != ids[1]:
        ours, theirs = (
            f"{count(len(named), 'case')} in {count(number, 'part')}"
            for named, (number, _) in zip(ids, cuts, strict=True)
        )
        raise UsageError(
            f"{first.name} and {other.name} were cut differently ({ours}, and {theirs}), so that "
            f"cases may be lacking or doubled; give all parts the same options, and the same "
            f"baseline"
        )
