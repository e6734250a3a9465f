"""The file of a run record: written, read, and refused if it contradicts itself.

Loads neither torch nor numpy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from grb_check.attacks.names import split_budget
from grb_check.cases.attack_pairs import SCENARIOS
from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.node_ids import case_of
from grb_check.cases.outcomes import MAIN_REFERENCE, Scores
from grb_check.errors import GrbCheckError, UsageError
from grb_check.files import typed_json
from grb_check.files.typed_json import FileKind
from grb_check.reports.record import FIGURES, CaseRecord, RunRecord, RunSettings

KIND: Final = FileKind(
    name="run record", type=RunRecord, format=6, wanted="give a file that --grb-json wrote"
)


def read(path: Path) -> RunRecord:
    """Return the record in a file.

    Raises:
        UsageError: it cannot be read, is not a run record of this format, was changed, or
            contradicts itself.
    """
    record = typed_json.read(KIND, path)
    check(record, f"run record {str(path)!r}")
    return record


def encode(record: RunRecord) -> str:
    """Return the text of the file."""
    return typed_json.encode(KIND, record, record.release)


def check(record: RunRecord, name: str) -> None:
    """Refuse a record that contradicts itself.

    Raises:
        UsageError: names the first contradiction.
    """
    try:
        problem = next(_problems(record), None)
    except (GrbCheckError, ArithmeticError) as error:  # the name of an attack, or its figures
        problem = str(error)
    if problem is not None:
        raise UsageError(f"{name} is inconsistent: {problem}; {KIND.wanted}")


def _problems(record: RunRecord) -> Iterator[str]:
    if "grb_check" not in record.environment:
        yield "its environment does not name the version of grb_check"
    yield from _settings_problems(record.settings)
    for case in record.cases:
        yield from _case_problems(case)
    for what, ids in (
        ("case", [each.node_id for each in record.cases]),
        ("missing case", record.missing),
        ("planned case", [each.id for each in record.planned]),
        ("deselected case", record.deselected),
    ):
        yield from (f"{what} {each!r} is listed twice" for each in _repeated(ids))
    for planned in record.planned:
        case_planned = case_of(planned.node_id)
        if case_planned is None or case_planned.id != planned.id:
            yield f"planned case {planned.id!r} has the node id {planned.node_id!r}"
    unplanned = set(record.deselected) - {each.id for each in record.planned}
    yield from (f"deselected case {each!r} was not planned" for each in sorted(unplanned))
    if record.shard is not None and record.shard.index > record.shard.count:
        yield f"shard {record.shard.index} of {record.shard.count}"
    for curve in record.curves:
        if not curve.points or any(not 0.0 < each.budget <= 1.0 for each in curve.points):
            yield f"the curve of {curve.id} has no points, or budgets outside of (0, 1]"


def _settings_problems(settings: RunSettings) -> Iterator[str]:
    for level in settings.difficulties:
        if level not in DIFFICULTIES:
            yield f"its settings have the unknown difficulty {level!r}"
    for attack in settings.attacks:
        scenario, _, name = attack.partition("/")
        if scenario not in SCENARIOS or not name:
            yield f"its settings have the attack {attack!r} of no known scenario"
        split_budget(name)


def _case_problems(row: CaseRecord) -> Iterator[str]:
    case = row.case
    if case.difficulty not in DIFFICULTIES or case.scenario not in SCENARIOS:
        yield f"case {row.id!r} has no known difficulty and scenario"
        return
    found = row.outcome
    if case.id != row.id or (found is not None and found.id != row.id):
        yield f"case {row.id!r} has the outcome of {case.id!r}"
    if found is None:
        return
    names = set(found.repeats[0].references)
    for number, repeat in enumerate(found.repeats, 1):
        if MAIN_REFERENCE not in repeat.references or set(repeat.references) != names:
            yield f"repeat {number} of case {row.id!r} has the references {list(repeat.references)}"
            return
        for side in (repeat.victim, *repeat.references.values()):
            if not _counted(side, found.targets):
                yield (
                    f"repeat {number} of case {row.id!r} has accuracies that are not those of its "
                    f"{found.targets} targets"
                )
    for name in FIGURES:
        if not _same(getattr(found, name), getattr(found.outcome, name)):
            yield f"{name} of case {row.id!r} is not that of its repeats"


def _counted(scores: Scores, targets: int) -> bool:
    """Whether the packed bits have a bit for each target, and give the accuracies."""
    width = (targets + 7) // 8
    pairs = ((scores.right_before, scores.clean), (scores.right_after, scores.attacked))
    return all(
        len(bits) == width
        and math.isclose(int.from_bytes(bits, "big").bit_count() / targets, share, abs_tol=1e-6)
        for bits, share in pairs
    )


def _same(one: float | None, other: float | None) -> bool:
    """Whether two figures are the same but for rounding."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def _repeated(ids: Iterable[str]) -> list[str]:
    return [each for each, count in Counter(ids).items() if count > 1]
