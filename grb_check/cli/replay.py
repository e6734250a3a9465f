"""Apply the recorded perturbations of a failed case to a model again.

The exit code is 0 if the model keeps the recorded limits, 1 if it still breaks them, 125 if nothing
can be said, because the model cannot be built or the data differ from those of the failure, and 128
if the command is wrong or the file is not evidence. At 125 `git bisect run` skips a commit, at 128
and more it stops.

A file names the model, and the dataset if a function makes it; both are imported and called. Replay
files only of people whose code you would run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grb_check import datasets
from grb_check.cases import counter_example
from grb_check.cli.console import complain, say
from grb_check.datasets import Places, Source
from grb_check.datasets.source import FEATURE_RULES, SPLIT_RULES, TRAININGS, expanded
from grb_check.errors import (
    BudgetError,
    DataError,
    GrbCheckError,
    UsageError,
    choose,
    chosen,
    count,
    one_line,
)
from grb_check.failures import evidence
from grb_check.failures.evidence import Evidence, SavedModel, SavedRepeat
from grb_check.files.versions import versions
from grb_check.settings.model_specs import read_models
from grb_check.user_code.revisions import belongs_to, find_revision, not_of, remove_stale, worktree

if TYPE_CHECKING:
    from grb_check.evaluation.evaluator import Evaluator
    from grb_check.victims.subject import Subject

PASSES: Final = 0
FAILS: Final = 1
CANNOT_TELL: Final = 125
STOP: Final = 128


@dataclass(frozen=True)
class _ReplayedRepeat:
    """The result of a repeat now, beside the recorded one."""

    recorded: SavedRepeat
    clean: float
    attacked: float
    same_weights: bool

    @property
    def now(self) -> SavedRepeat:
        return replace(self.recorded, clean=self.clean, attacked=self.attacked)

    @property
    def as_recorded(self) -> bool:
        before = self.recorded
        return (before.clean, before.attacked) == (self.clean, self.attacked)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(wrong_input=STOP)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "artifact", metavar="ARTIFACT", help="file that the message of a failed case names"
    )
    parser.add_argument(
        "--grb-model",
        metavar="PKG.MODULE:ATTR",
        help="the factory of the model (default: that of the failed case)",
    )
    parser.add_argument(
        "--grb-model-args",
        metavar="NAME=VALUE,...",
        type=str,  # it may be empty
        help="keyword arguments for the factory",
    )
    parser.add_argument(
        "--grb-dataset",
        metavar="DATASET",
        help="the dataset, if it has moved; it must have the same content",
    )
    parser.add_argument(
        "--grb-data",
        metavar="DIR",
        action="append",
        default=[],
        help="folder of datasets; repeatable (default: those of the failed case)",
    )
    parser.add_argument("--grb-download", action="store_true", help="allow downloads of datasets")
    parser.add_argument(
        "--grb-shrink",
        action="store_true",
        help="look for the smallest part of the perturbation that still breaks a limit",
    )
    parser.add_argument(
        "--at",
        metavar="REV",
        help="the revision of git whose files the model is taken from (default: the files here)",
    )
    parser.add_argument(
        "--grb-device", metavar="DEVICE", default="auto", help="torch device (default: auto)"
    )


def run(options: argparse.Namespace) -> int:
    """Replay the file and return the exit code."""
    try:
        return _replay(options) if options.at is None else _replay_at(options)
    except (GrbCheckError, BrokenPipeError):
        raise
    except (Exception, SystemExit):  # Python would exit with 1, as for a case that fails
        traceback.print_exc()
        return CANNOT_TELL


def _replay_at(options: argparse.Namespace) -> int:
    """Replay in a copy of the files of a revision, which alone are imported.

    Raises:
        UsageError: there is no such revision.
    """
    cwd, places = Path.cwd().resolve(), sys.path[:]
    revision = find_revision(options.at, cwd, "--at")
    top = revision.top.resolve()
    options.artifact = cwd / expanded(options.artifact)
    options.grb_data = [cwd / expanded(folder) for folder in options.grb_data]
    if options.grb_dataset:
        options.grb_dataset = datasets.anchored(options.grb_dataset, cwd)
    remove_stale(top)
    with worktree(revision) as folder:
        sys.path[:] = [entry for entry in places if not belongs_to(top, Path(entry))]
        below = folder / cwd.relative_to(top)
        below.mkdir(parents=True, exist_ok=True)
        try:
            os.chdir(below)
            code = _replay(options)
        finally:
            os.chdir(cwd)
            sys.path[:] = places
        foreign = not_of(folder, top)
    if foreign:
        complain(DataError(f"not of {options.at}, though imported: {', '.join(foreign[:3])}"))
        return CANNOT_TELL
    return code


def _replay(options: argparse.Namespace) -> int:
    path = expanded(options.artifact)
    saved = evidence.read(path)
    model = _model(options, saved)
    source = _source(options, saved)
    evaluator = _evaluator(options.grb_device)
    sys.path[:0] = dict.fromkeys([str(Path.cwd()), *_import_folders(saved)])
    try:
        _check_data(evaluator, source, saved)
        subject = _subject(model)
        say(*_opening(saved, model, evaluator.device.type))
        measured = []
        for repeat in saved.repeats:
            measured.append(_measure(evaluator, subject, source, saved, repeat))
            say(_line(f"repeat {repeat.seed + 1}", measured[-1]))
    except BudgetError as error:
        msg = f"evidence {str(path)!r} has a perturbation that its threat forbids: {error}"
        raise UsageError(msg) from None
    except GrbCheckError as error:
        complain(error)
        return CANNOT_TELL
    wrong = _verdict(saved, measured)
    if wrong and options.grb_shrink:
        now = replace(saved, repeats=tuple(row.now for row in measured))
        _shrink(path, now, evaluator, subject, source)
    return FAILS if wrong else PASSES


def _model(options: argparse.Namespace, saved: Evidence) -> SavedModel:
    """Return the model to test: the named one, else the recorded one.

    Raises:
        UsageError: there is neither, or its form is wrong.
    """
    args = [] if options.grb_model_args is None else [options.grb_model_args]
    given = options.grb_model or saved.model.target
    if not given:
        raise UsageError(
            "the failed test got its model from a fixture, which cannot be recorded; name a "
            "factory of it with --grb-model pkg.module:attr"
        )
    spec = read_models([given], args)[0]
    as_recorded = spec.target == saved.model.target and not args
    return SavedModel(
        name=saved.model.name if spec.target == saved.model.target else spec.label,
        target=spec.target,
        args=saved.model.args if as_recorded else spec.arguments,
        folders=saved.model.folders,
    )


def _source(options: argparse.Namespace, saved: Evidence) -> Source:
    """Return the dataset, which may have moved with the folder of the run.

    Raises:
        UsageError: it cannot be found.
    """
    data = saved.data
    folders = [expanded(folder) for folder in options.grb_data]
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(f"--grb-data: {str(folder)!r} is not a directory; give one")
    recorded = [Path(_moved(folder, data.base)) for folder in data.folders]
    places = Places(
        folders=tuple(folders or [folder for folder in recorded if folder.is_dir()]),
        download=options.grb_download,
        split=chosen("split", data.split, SPLIT_RULES),
        training=choose("training", data.training, TRAININGS),
        features=chosen("features", data.features, FEATURE_RULES),
    )
    if options.grb_dataset:
        return datasets.find(datasets.anchored(options.grb_dataset, Path.cwd()), places)
    name, equals, where = data.spec.rpartition("=")
    return datasets.find(f"{name}{equals}{_moved(where, data.base)}", places)


def _moved(path: str, base: str) -> str:
    """Replace the folder of the run in a path by the working folder, if there is such a place."""
    if not Path(path).is_absolute() or not Path(path).is_relative_to(base):
        return path
    moved = Path.cwd() / Path(path).relative_to(base)
    return str(moved) if moved.exists() else path


def _import_folders(saved: Evidence) -> list[str]:
    """Folders from which the run imported, if they exist."""
    folders = (_moved(folder, saved.data.base) for folder in saved.model.folders)
    return [folder for folder in folders if Path(folder).is_dir()]


def _evaluator(device: str) -> Evaluator:
    from grb_check.evaluation.evaluator import Evaluator  # imports torch
    from grb_check.store.store import Store

    return Evaluator(store=Store(None), device=device)


def _subject(model: SavedModel) -> Subject:
    from grb_check.victims.subject import as_subject  # imports torch

    return as_subject(model.target, model.args, model.name)


def _check_data(evaluator: Evaluator, source: Source, saved: Evidence) -> None:
    """Check that the dataset is the recorded one.

    Raises:
        DataError: it is another one, or cannot be read.
    """
    from grb_check.failures.replay import sizes  # imports torch

    dataset = evaluator.dataset(source)
    if dataset.fingerprint() == saved.data.fingerprint:
        return
    now, then = sizes(dataset), saved.data.sizes
    names = dict.fromkeys((*then, *now))
    differing = [
        f"{now.get(name, 0):,} {name}, recorded {then.get(name, 0):,}"
        for name in names
        if now.get(name) != then.get(name)
    ]
    what = "; ".join(differing) or (
        "it has the same sizes, but other features, edges or labels, or another split"
    )
    raise DataError(
        f"dataset {source.name} is not the one that the case failed on: {what}; give that one with "
        f"--grb-dataset or --grb-data"
    )


def _measure(
    evaluator: Evaluator, subject: Subject, source: Source, saved: Evidence, repeat: SavedRepeat
) -> _ReplayedRepeat:
    from grb_check.attacks.threat import verify  # imports torch
    from grb_check.failures.replay import replaying

    with replaying(evaluator, subject, source, saved.case, repeat.seed) as replay:
        verify(repeat.perturbation, replay.graph, replay.threat)
        after = replay.accuracy(replay.after(repeat.perturbation))
        same = replay.model.weights == repeat.weights
        return _ReplayedRepeat(repeat, replay.accuracy(replay.before), after, same)


def _opening(saved: Evidence, model: SavedModel, device: str) -> Iterator[str]:
    yield f"{saved.case.id} of {model.name}, {count(len(saved.repeats), 'repeat')}"
    yield f"recorded: {saved.message}"
    now = versions()
    differing = [
        f"{name} {then}, now {now.get(name, 'none')}"
        for name, then in saved.versions.items()
        if now.get(name) != then
    ]
    if device != saved.device:
        differing.append(f"device {saved.device}, now {device}")
    if differing:
        yield f"recorded with {'; '.join(differing)}"


def _line(name: str, measured: _ReplayedRepeat) -> str:
    now, then = measured.now, measured.recorded
    line = f"{name}: clean {now.clean:.1%} -> attacked {now.attacked:.1%}, drop {now.drop:.1%}"
    if measured.as_recorded:
        return f"{line}, as recorded"
    return (
        f"{line}; recorded: clean {then.clean:.1%} -> attacked {then.attacked:.1%}, drop "
        f"{then.drop:.1%}"
    )


def _verdict(saved: Evidence, measured: Sequence[_ReplayedRepeat]) -> str:
    """Write the result over all repeats, and return what is wrong; empty if nothing is."""
    clean = statistics.fmean(row.clean for row in measured)
    attacked = statistics.fmean(row.attacked for row in measured)
    drop = statistics.fmean(row.now.drop for row in measured)
    if len(measured) > 1:
        say(f"mean: clean {clean:.1%} -> attacked {attacked:.1%}, drop {drop:.1%}")
    others = [str(row.recorded.seed + 1) for row in measured if not row.same_weights]
    if others:
        made_for = [row for row in measured if not row.same_weights and _of_victim(row.recorded)]
        say(
            f"the weights of the model are not the recorded ones in repeat {', '.join(others)}: "
            f"other code, arguments, versions or device, or a training that is not deterministic"
            + ("; the perturbation was made for the recorded ones" if made_for else "")
        )
    limits = saved.limits
    wrong = limits.broken(clean, attacked, drop)
    if limits.drop is None and limits.attacked is None:
        say("no limit was recorded, because the test judges by itself")
        return ""
    rule = f" ({limits.rule})" if limits.rule else ""
    allowed = "" if limits.drop is None else f": drop {drop:.1%} <= limit {limits.drop:.1%}{rule}"
    say(f"fails: {wrong}{rule}" if wrong else f"passes{allowed}")
    return wrong


def _of_victim(repeat: SavedRepeat) -> bool:
    return repeat.method in ("adaptive", "score-based")


def _shrink(
    path: Path, now: Evidence, evaluator: Evaluator, subject: Subject, source: Source
) -> None:
    # Imports torch, which a wrong command line does not need.
    from grb_check.failures.counter_examples import NO_SINGLE_REPEAT, save_smallest, small_path

    try:
        small = save_smallest(path, now, evaluator, subject, source)
    except (GrbCheckError, OSError) as error:
        say(f"smallest counter-example: not found: {one_line(error)}")
        return
    if small is None:
        say(NO_SINGLE_REPEAT)
        return
    what = "graph" if source.of_graphs else "node"
    say(counter_example.summary(small), *counter_example.lines(small, what))
    say(f"kept as {small_path(path)}")
