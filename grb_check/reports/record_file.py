"""The file of a run record: written, read, and refused if it contradicts itself.

Its section `summary` is for other programs: it follows from the rest, and is not read. Loads no
torch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from grb_check.attacks.names import split_budget
from grb_check.attacks.scenarios import SCENARIOS
from grb_check.cases.case import DIFFICULTIES, MOST_REPEATS, WHOLE, case_of
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.outcomes import MAIN_REFERENCE, Scores
from grb_check.errors import GrbCheckError, UsageError, count
from grb_check.files import typed_json
from grb_check.files.typed_json import FileKind
from grb_check.reports.digest import summary_of
from grb_check.reports.record import RunRecord, RunSettings

KIND: Final = FileKind(
    name="run record",
    type=RunRecord,
    format=13,
    wanted="give a file that --grb-json wrote",
    ignored="summary",
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


def read_all(paths: Sequence[str]) -> list[RunRecord]:
    """Return the records in several files.

    Raises:
        UsageError: a file is given twice; or see `read`.
    """
    if len(set(paths)) < len(paths):
        raise UsageError(f"a run record is given twice: {', '.join(paths)}; give each once")
    return [read(Path(path)) for path in paths]


def encode(record: RunRecord) -> str:
    """Return the text of the file."""
    return typed_json.encode(KIND, record, record.release, msgspec.to_builtins(summary_of(record)))


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
        ("planned case", [row.id for row in record.planned]),
        ("deselected case", record.deselected),
    ):
        yield from (f"{what} {each!r} is listed twice" for each in _repeated(ids))
    yield from _plan_problems(record)
    if record.shard is not None and record.shard.index > record.shard.count:
        yield f"shard {record.shard.index} of {record.shard.count}"


def _plan_problems(record: RunRecord) -> Iterator[str]:
    """Each planned case is one of the settings, and each built-in case was planned."""
    settings = record.settings
    labels = {model.label for model in settings.models} if len(settings.models) > 1 else {""}
    for planned in record.planned:
        case = case_of(planned.node_id)
        if case is None or case.id != planned.id:
            yield f"planned case {planned.id!r} has the node id {planned.node_id!r}"
        elif (
            case.model not in labels
            or case.dataset not in settings.datasets
            or case.difficulty not in (*settings.difficulties, WHOLE)
            or f"{case.scenario}/{case.attack}" not in settings.attacks
        ):
            yield f"planned case {planned.id!r} is not one of its settings"
    reported = map(case_of, [*(each.node_id for each in record.cases), *record.missing])
    known = {row.id for row in record.planned}
    for what, ids in (
        ("case", {text.id for text in reported if text is not None}),
        ("deselected case", set(record.deselected)),
    ):
        yield from (f"{what} {identifier!r} was not planned" for identifier in sorted(ids - known))


def _settings_problems(settings: RunSettings) -> Iterator[str]:
    for level in settings.difficulties:
        if level not in DIFFICULTIES:
            yield f"its settings have the unknown difficulty {level!r}"
    for attack in settings.attacks:
        scenario, _, name = attack.partition("/")
        if scenario not in SCENARIOS or not name:
            yield f"its settings have the attack {attack!r} of no known scenario"
        split_budget(name)
    for label in _repeated(model.label for model in settings.models):
        yield f"two models of its settings have the label {label!r}"
    gate = settings.gate
    limits = [limit.limit for limit in gate.thresholds] + [
        gate.max_drop or 0.0,
        gate.min_clean or 0.0,
    ]
    if settings.repeats > MOST_REPEATS or not all(0.0 <= limit <= 1.0 for limit in limits):
        yield "its settings have limits or repeats that no option takes"


def _case_problems(row: CaseRecord) -> Iterator[str]:
    case = row.case
    if case.difficulty not in DIFFICULTIES or case.scenario not in SCENARIOS:
        yield f"case {row.id!r} has no known difficulty and scenario"
        return
    result, named = row.outcome, case_of(row.node_id)
    if named is not None and named.id != row.id:
        yield f"case {row.id!r} has the node id {row.node_id!r}"
    if case.id != row.id:
        yield f"case {row.id!r} has the outcome of {case.id!r}"
    if result is None:
        if row.verdict is not None:
            yield f"case {row.id!r} has a verdict and no figures"
        return
    if result.targets < 1 or not result.repeats or not 0.0 <= result.majority <= 1.0:
        yield f"case {row.id!r} has no targets or repeats, or a majority that is no share"
        return
    names = set(result.repeats[0].references)
    for name, each in result.shipped.items():
        if not each.clean or len(each.clean) != len(each.attacked):
            yield f"reference {name!r} of case {row.id!r} has no trainings, or different numbers"
            return
    if MAIN_REFERENCE not in {*names, *result.shipped}:
        yield f"case {row.id!r} has no reference {MAIN_REFERENCE!r}"
        return
    for number, repeat in enumerate(result.repeats, 1):
        least = min(repeat.seconds, repeat.training_seconds, *repeat.spent.values())
        if least < 0 or not 0.0 <= (repeat.per_target or 0.0) <= 1.0:
            yield f"repeat {number} of case {row.id!r} has a negative size or time, or no share"
        if set(repeat.references) != names:
            yield f"repeat {number} of case {row.id!r} has the references {list(repeat.references)}"
            return
        for side in (repeat.victim, *repeat.references.values()):
            if not _counted(side, result.targets):
                yield (
                    f"repeat {number} of case {row.id!r} has accuracies that are not those of its "
                    f"{count(result.targets, 'target')}"
                )


def _counted(scores: Scores, targets: int) -> bool:
    """Whether the packed bits have a bit for each target, and give the accuracies."""
    width = (targets + 7) // 8
    pairs = ((scores.right_before, scores.clean), (scores.right_after, scores.attacked))
    return all(
        len(bits) == width
        and math.isclose(int.from_bytes(bits, "big").bit_count() / targets, share, abs_tol=1e-6)
        for bits, share in pairs
    )


def _repeated(ids: Iterable[str]) -> list[str]:
    return [each for each, count in Counter(ids).items() if count > 1]
