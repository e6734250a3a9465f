"""What is kept of a failed case, and what its message says of that."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import replace as replace_fields

from grb_check.cases.outcomes import Outcome
from grb_check.datasets import Source
from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.datasets.views import AnyDataset
from grb_check.errors import one_line
from grb_check.evaluation.evaluator import Evaluator
from grb_check.failures import counter_example_text
from grb_check.failures import evidence as files
from grb_check.failures.counter_example_text import CounterExample
from grb_check.failures.counter_examples import counter_example, hardest, smallest
from grb_check.failures.evidence import Evidence, KeptData, KeptModel, KeptRepeat, limits_of
from grb_check.files.whole import shown
from grb_check.gate.limits import Verdict
from grb_check.victims.subject import Subject

ANY_MODEL: Final = "pkg.module:attr"
NO_SINGLE_REPEAT: Final = "smallest counter-example: none, because no repeat alone breaks a limit"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A test that failed on an outcome.

    Attributes:
        node_id: of the test.
        subject: the model.
        source: of the dataset.
        outcome: of the model in the case.
        verdict: of the gate; None where the test judges by itself.
    """

    node_id: str
    subject: Subject
    source: Source
    outcome: Outcome
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things lie.

    Attributes:
        folder: of evidence.
        root: pytest's root folder.
        here: the working folder, from which a replay is started.
    """

    folder: Path
    root: Path
    here: Path


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What came of it.

    Attributes:
        record: for reports, builtin types: `artifact`, `replay`, `smallest`; None where nothing
            could be kept.
        lines: to follow the verdict in the message.
        section: the counter-example in full, for the failure's report.
    """

    record: Mapping[str, Any] | None
    lines: tuple[str, ...]
    section: str = ""


def worth_keeping(verdict: Verdict | None) -> bool:
    """Whether a perturbation is what the test failed on.

    It is not where the clean accuracy is too low, or the attack is in doubt.
    """
    return verdict is None or not (verdict.below_floor or verdict.failed_diagnostics)


def keep(failure: Failure, evaluator: Evaluator, places: Places, *, shrink: bool) -> Kept:
    """Write what the victim faced to a file, and say how to replay it.

    The verdict stands whatever happens here: what goes wrong is a line of the message.

    Args:
        failure: worth it.
        evaluator: that made the outcome.
        places: to write to, and to speak of.
        shrink: whether to look for the smallest counter-example.
    """
    path = places.folder / file_name(failure)
    try:
        found = _evidence(failure, evaluator, places)
        files.write(path, found)
    except Exception as error:  # code of the user may have run again
        return Kept(record=None, lines=(f"replay: nothing was kept: {one_line(error)}",))
    replay = replay_command(path, found, places.here)
    record: dict[str, Any] = {"artifact": shown(path, places.here), "replay": replay}
    lines, section = [f"replay: {replay}"], ""
    record["smallest"] = None
    if shrink:
        try:
            small = save_smallest(path, found, evaluator, failure.subject, failure.source)
        except Exception as error:  # likewise
            lines.append(f"smallest counter-example: not found: {one_line(error)}")
        else:
            lines.append(NO_SINGLE_REPEAT if small is None else counter_example_text.summary(small))
            if small is not None:
                small = replace_fields(small, artifact=shown(small_path(path), places.here))
                record["smallest"] = to_builtins(small)
                what = "graph" if failure.source.of_graphs else "node"
                section = "\n".join(counter_example_text.lines(small, what))
    return Kept(record=record, lines=tuple(lines), section=section)


def save_smallest(
    path: Path, found: Evidence, evaluator: Evaluator, subject: Subject, source: Source
) -> CounterExample | None:
    """Shrink the perturbation of the repeat that breaks the limits by most, and keep it.

    Args:
        path: of the evidence; the small one is kept beside it, see `small_path`.
        found: with the figures by which to choose.
        evaluator: to train the victim again, where it is not in memory.
        subject: the model.
        source: of the dataset.

    Returns:
        The counter-example; None where no repeat alone breaks the limits.

    Raises:
        ModelError: the victim fails on one of the graphs.
        OSError: the file cannot be written.
    """
    place = hardest([(each.clean, each.attacked) for each in found.repeats], found.limits)
    repeat = found.repeats[place]
    with evaluator.scene(subject, source, found.case, repeat.seed) as scene:
        small = smallest(scene, repeat.perturbation, found.limits)
        weights, num_nodes = scene.ready.weights, scene.graph.num_nodes
    if small is None:
        return None
    about = counter_example(small, num_nodes)
    part = replace(
        repeat,
        clean=small.clean,
        attacked=small.attacked,
        weights=weights,
        perturbation=small.perturbation,
    )
    files.write(
        small_path(path),
        replace(
            found,
            limits=replace(found.limits, clean=None),
            message=counter_example_text.summary(about),
            repeats=(part,),
        ),
    )
    return about


def small_path(path: Path) -> Path:
    """Where the smallest counter-example of an evidence is kept."""
    return path.with_name(f"{path.stem}-smallest.npz")


def file_name(failure: Failure) -> str:
    """Safe in every file system, the same in every run, another for every test and model."""
    names = f"{failure.node_id} {failure.subject.name}"
    readable = re.sub(r"[^A-Za-z0-9.@+=-]+", "_", failure.outcome.case.id)[:100]
    return f"{readable}-{hashlib.sha256(names.encode()).hexdigest()[:8]}.npz"


def replay_command(path: Path, found: Evidence, here: Path) -> str:
    """What to type in the working folder."""
    model = found.model
    words = ["python", "-m", "grb_check", "replay", shown(path, here)]
    words += ["--grb-model", model.target or ANY_MODEL]
    if model.args:
        text = ",".join(f"{name}={value!r}" for name, value in model.args.items())
        words += ["--grb-model-args", text]
    return shlex.join(words)


def import_folders(root: Path) -> tuple[str, ...]:
    """The folders below the root from which this process imports; an environment there is none."""
    environments = [Path(each) for each in (sys.prefix, sys.base_prefix)]
    inner = [each for each in environments if each.is_relative_to(root)]
    return tuple(
        each
        for each in dict.fromkeys(sys.path)
        if Path(each).is_relative_to(root) and not any(map(Path(each).is_relative_to, inner))
    )


def sizes(dataset: AnyDataset) -> dict[str, int]:
    """What tells datasets apart at a glance."""
    found = {
        "nodes": dataset.num_nodes,
        "edges": dataset.num_edges,
        "features": dataset.num_features,
        "classes": dataset.num_classes,
    }
    if isinstance(dataset, GraphDataset):
        return found | {"test graphs": dataset.num_graphs}
    return found | {"test nodes": int(dataset.test["full"].numel())}


def _evidence(failure: Failure, evaluator: Evaluator, places: Places) -> Evidence:
    outcome, subject, source = failure.outcome, failure.subject, failure.source
    perturbations = evaluator.perturbations(subject, source, outcome)
    asked = source.places
    return Evidence(
        case=outcome.case,
        model=KeptModel(
            name=subject.name,
            target=subject.target,
            args=dict(subject.args),
            folders=import_folders(places.root),
        ),
        data=KeptData(
            spec=source.asked or source.name,
            split=asked.split,
            training=asked.training,
            features=asked.features,
            folders=tuple(map(str, asked.folders)),
            base=str(places.root),
            fingerprint=outcome.dataset,
            sizes=sizes(evaluator.dataset(source)),
        ),
        limits=limits_of(failure.verdict),
        message=f"drop {outcome.drop:.1%}" if failure.verdict is None else failure.verdict.message,
        device=evaluator.device.type,
        repeats=tuple(
            KeptRepeat(
                seed=repeat.seed,
                clean=repeat.victim.clean,
                attacked=repeat.victim.attacked,
                method=repeat.method,
                member=repeat.member,
                weights=repeat.weights,
                perturbation=perturbation,
            )
            for repeat, perturbation in zip(outcome.repeats, perturbations, strict=True)
        ),
    )
