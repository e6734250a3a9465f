"""Differences between parts that should be of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from grb_check.cases.node_ids import is_node_id
from grb_check.cli.shard_records import PartRecord
from grb_check.files.versions import NUMERIC, PACK, PROCESSOR, THREADS
from grb_check.reports.record import (
    RunRecord,
)

SHARED: Final = ("grb_check", *NUMERIC, PACK)  # that all parts must have in common
OF_THE_MACHINE: Final = (PROCESSOR, THREADS)  # may round otherwise, which training amplifies
UNEXPLAINED: Final = (
    "though the files, versions and machine are the same: code or data outside of the package "
    "differs, or the training is not deterministic"
)
Trained: TypeAlias = tuple[str, str, int]  # model, dataset, seed


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference between two parts.

    Attributes:
        text: names the parts and what differs.
        refused: whether the parts cannot be of one run.
    """

    text: str
    refused: bool


def differences(parts: Sequence[PartRecord]) -> list[Difference]:
    """Return what differs between parts that have the same settings, each difference once.

    Every part trains for itself from the same seed: other weights mean other code, other versions,
    another machine, or a training that is not deterministic. They are accepted only if another
    machine explains them.
    """
    result: dict[str, Difference] = {}
    trained: dict[Trained, tuple[PartRecord, set[str]]] = {}
    for part in parts:
        for difference in _code(parts[0], part):
            text = f"{parts[0].name} and {part.name} have {difference}"
            result.setdefault(difference, Difference(text=text, refused=True))
        for subject, weights in _weights(part.record).items():
            first, known = trained.setdefault(subject, (part, weights))
            if not weights & known:
                name = f"{subject[0]} on {subject[1]}"
                result.setdefault(name, _other_weights(name, first, part))
    return list(result.values())


def _other_weights(name: str, one: PartRecord, other: PartRecord) -> Difference:
    """The difference between the weights of `model on dataset`, and what may explain it."""
    code, machine = _code(one, other), _environment(one, other, OF_THE_MACHINE)
    why = f"with {', '.join([*code, *machine])}" if code or machine else UNEXPLAINED
    text = f"{one.name} and {other.name} have different weights of {name} for the same seed, {why}"
    return Difference(text=text, refused=bool(code) or not machine)


def _code(one: PartRecord, other: PartRecord) -> list[str]:
    """Differences of the sources of the models and of the versions of libraries."""
    models = zip(one.record.settings.models, other.record.settings.models, strict=True)
    sources = [
        f"different Python files in the package of {ours.label} ({ours.target})"
        for ours, theirs in models
        if ours.source != theirs.source
    ]
    return sources + _environment(one, other, SHARED)


def _environment(one: PartRecord, other: PartRecord, names: Sequence[str]) -> list[str]:
    sides = (part.record.environment for part in (one, other))
    ours, theirs = ([side.get(name, "unknown") for name in names] for side in sides)
    return [
        f"{name} {was} and {now}"
        for name, was, now in zip(names, ours, theirs, strict=True)
        if was != now
    ]


def _weights(record: RunRecord) -> Mapping[Trained, set[str]]:
    """The digests of the weights of each model, dataset and seed, where they are known."""
    result: dict[Trained, set[str]] = {}
    label = record.settings.models[0].label if record.settings.models else ""
    for row in record.cases:
        if row.outcome is None or not is_node_id(row.node_id):
            continue
        for repeat in row.outcome.repeats:
            if repeat.weights:
                trained = (row.case.model or label, row.case.dataset, repeat.seed)
                result.setdefault(trained, set()).add(repeat.weights)
    return result
