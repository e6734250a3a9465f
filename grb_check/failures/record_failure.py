"""Record a failed case: evidence to replay, the smallest counter-example, lines of its message."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec import to_builtins

from grb_check.attacks.threat import Perturbation
from grb_check.cases import counter_example
from grb_check.cases.outcomes import Outcome
from grb_check.cases.verdicts import Verdict
from grb_check.datasets import Source
from grb_check.errors import one_line
from grb_check.evaluation.evaluator import Evaluator
from grb_check.failures import evidence as files
from grb_check.failures.counter_examples import NO_SINGLE_REPEAT, save_smallest, small_path
from grb_check.failures.evidence import Evidence, SavedDataset, SavedModel, SavedRepeat, limits_of
from grb_check.failures.replay import sizes
from grb_check.files.outputs import shown
from grb_check.files.text import command_line
from grb_check.victims.subject import Subject

ANY_MODEL: Final = "pkg.module:attr"


@dataclass(frozen=True, kw_only=True)
class FailedTest:
    """A test that failed on an outcome.

    Attributes:
        node_id: of the test.
        subject: the model.
        source: of the dataset.
        outcome: of the model in the case.
        perturbations: applied to the victim, one for each repeat of the outcome.
        verdict: of the gate; None if the test judges by itself.
    """

    node_id: str
    subject: Subject
    source: Source
    outcome: Outcome
    perturbations: tuple[Perturbation, ...]
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True)
class RunFolders:
    """Folders of the run.

    Attributes:
        folder: for evidence.
        root: pytest's root folder.
        cwd: the working folder, from which a replay is started.
    """

    folder: Path
    root: Path
    cwd: Path


@dataclass(frozen=True, kw_only=True)
class SavedFailure:
    """The recorded parts of a failure.

    Attributes:
        record: for reports, builtin types: `artifact`, `replay`, `smallest`; None if nothing could
            be written.
        lines: of the message, after the verdict.
        section: the whole counter-example, for the failure's report.
    """

    record: Mapping[str, Any] | None
    lines: tuple[str, ...]
    section: str = ""


def worth_saving(verdict: Verdict | None) -> bool:
    """Whether the test failed because of a perturbation.

    It did not if the clean accuracy is too low, if a diagnostic failed, or if nothing was shown.
    """
    return verdict is None or not (
        verdict.below_floor or verdict.failed_diagnostics or verdict.inconclusive
    )


def save(
    failure: FailedTest, evaluator: Evaluator, places: RunFolders, *, shrink: bool
) -> SavedFailure:
    """Write the perturbations of a failed test to a file, and say how to replay them.

    Errors do not change the verdict: they become lines of the message.

    Args:
        failure: for which `worth_saving` holds.
        evaluator: that made the outcome.
        places: folders of the run.
        shrink: whether to search for the smallest counter-example.
    """
    path = places.folder / file_name(failure)
    try:
        result = _evidence(failure, evaluator, places)
        files.write(path, result)
    except Exception as error:  # such as a full disk; or code of the user, in loading the dataset
        return SavedFailure(
            record=None, lines=(f"replay: nothing was recorded: {one_line(error)}",)
        )
    replay = replay_command(path, result, places.cwd)
    record: dict[str, Any] = {"artifact": shown(path, places.cwd), "replay": replay}
    lines, section = [f"replay: {replay}"], ""
    record["smallest"] = None
    if shrink:
        try:
            small = save_smallest(path, result, evaluator, failure.subject, failure.source)
        except Exception as error:  # whatever code of the user raises
            lines.append(f"smallest counter-example: not found: {one_line(error)}")
        else:
            lines.append(NO_SINGLE_REPEAT if small is None else counter_example.summary(small))
            if small is not None:
                where = {"artifact": shown(small_path(path), places.cwd)}
                record["smallest"] = to_builtins(small) | where
                what = "graph" if failure.source.of_graphs else "node"
                section = "\n".join(counter_example.lines(small, what))
    return SavedFailure(record=record, lines=tuple(lines), section=section)


def file_name(failure: FailedTest) -> str:
    """A name that is safe in every file system, stable, and unique for a test and model."""
    names = f"{failure.node_id} {failure.subject.name}"
    readable = re.sub(r"[^A-Za-z0-9@+=-]+", "_", failure.outcome.case.id)[:100]
    return f"{readable}-{hashlib.sha256(names.encode()).hexdigest()[:8]}.npz"


def replay_command(path: Path, evidence: Evidence, cwd: Path) -> str:
    """The command to type in the working folder."""
    model = evidence.model
    words = ["python", "-m", "grb_check", "replay", shown(path, cwd)]
    words += ["--grb-model", model.target or ANY_MODEL]
    if model.args:
        text = ",".join(f"{name}={value!r}" for name, value in model.args.items())
        words += ["--grb-model-args", text]
    return command_line(words)


def import_folders(root: Path) -> tuple[str, ...]:
    """Folders below the root from which this process imports, without those of an environment."""
    environments = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix)]
    inner = [environment for environment in environments if environment.is_relative_to(root)]
    return tuple(
        entry
        for entry in dict.fromkeys(sys.path)
        if Path(entry).is_relative_to(root) and not any(map(Path(entry).is_relative_to, inner))
    )


def _evidence(failure: FailedTest, evaluator: Evaluator, places: RunFolders) -> Evidence:
    outcome, subject, source = failure.outcome, failure.subject, failure.source
    source_places = source.places
    return Evidence(
        case=outcome.case,
        model=SavedModel(
            name=subject.name,
            target=subject.target,
            args=dict(subject.args),
            folders=import_folders(places.root),
        ),
        data=SavedDataset(
            spec=source.given or source.name,
            split=source_places.split,
            training=source_places.training,
            features=source_places.features,
            metric=source_places.metric,
            folders=tuple(map(str, source_places.folders)),
            base=str(places.root),
            fingerprint=outcome.dataset,
            sizes=sizes(evaluator.dataset(source)),
        ),
        limits=limits_of(failure.verdict),
        message=f"drop {outcome.drop:.1%}" if failure.verdict is None else failure.verdict.message,
        device=evaluator.device.type,
        repeats=tuple(
            SavedRepeat(
                seed=repeat.seed,
                clean=repeat.victim.clean,
                attacked=repeat.victim.attacked,
                method=repeat.method,
                member=repeat.member,
                weights=repeat.weights,
                perturbation=perturbation,
            )
            for repeat, perturbation in zip(outcome.repeats, failure.perturbations, strict=True)
        ),
    )
