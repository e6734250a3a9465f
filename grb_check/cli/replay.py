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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from grb_check import datasets
from grb_check.cases import counter_example
from grb_check.cases.case import Case
from grb_check.cli.console import complain, say
from grb_check.datasets import Places
from grb_check.datasets.catalogue import split_off_selection
from grb_check.datasets.metric_names import check_metric
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
from grb_check.failures.evidence import Evidence, SavedRepeat
from grb_check.files.versions import versions
from grb_check.runs.measuring import Measuring
from grb_check.runs.replay_steps import (
    LostTarget,
    ReplayedRepeat,
    SingleTargets,
    data,
    replayed,
    shrunk,
)
from grb_check.runs.revision_copy import RevisionCopy
from grb_check.runs.revision_steps import foreign
from grb_check.runs.start import calls_for
from grb_check.runs.tasks import ModelOnDataset
from grb_check.runs.workers.calls import Calls
from grb_check.runs.workers.in_process import Inline
from grb_check.settings.model_specs import ModelSpec, read_models
from grb_check.settings.selecting import source_of
from grb_check.settings.settings import RunSettings, spec_of
from grb_check.user_code.revisions import find_revision, remove_stale, worktree

PASSES: Final = 0
FAILS: Final = 1
CANNOT_TELL: Final = 125
STOP: Final = 128
SHOWN: Final = 10  # targets that are lost to changes of their own


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
        "--target",
        metavar="NUMBER",
        type=int,
        help="show what this node is lost to, in a case that attacks single nodes",
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
        return _replay(options)
    except (GrbCheckError, BrokenPipeError):
        raise
    except (Exception, SystemExit):  # Python would exit with 1, as for a case that fails
        traceback.print_exc()
        return CANNOT_TELL


def _replay(options: argparse.Namespace) -> int:
    path, cwd = expanded(options.artifact), Path.cwd()
    saved = evidence.read(path)
    settings = _settings(options, saved)
    folders = [str(cwd), *_import_folders(saved)]
    if options.at is None:
        sys.path[:0] = dict.fromkeys(folders)
        return _judged(path, saved, settings, Inline(settings), options)
    revision = find_revision(options.at, cwd, "--at")
    top = revision.top.resolve()
    remove_stale(top)
    with worktree(revision) as folder:
        copy = RevisionCopy(top, folder)
        place = copy.place(cwd, settings, folders)
        there = copy.settings(settings)
        calls = calls_for(there, len(saved.repeats), place)
        return _judged(path, saved, there, calls, options, copy)


def _judged(
    path: Path,
    saved: Evidence,
    settings: RunSettings,
    calls: Calls,
    options: argparse.Namespace,
    copy: RevisionCopy | None = None,
) -> int:
    """Replay all repeats and return the exit code.

    Args:
        path: of the evidence.
        saved: the evidence.
        settings: of the replay.
        calls: runs its tasks; closed with it.
        options: of the command: whether the perturbation is reduced if a limit is still broken, and
            which target is shown.
        copy: that alone may be imported from; None for the working tree.

    Raises:
        UsageError: a perturbation is beyond its threat.
    """
    on = ModelOnDataset(settings.models[0], source_of(settings, settings.datasets[0].name))
    with closing(Measuring(calls, settings, lambda _: on)) as measuring:
        try:
            fingerprint, sizes = measuring.ask(data, saved.case)
            _check_data(fingerprint, sizes, saved, on.source.name)
            (device,) = measuring.devices
            say(*_opening(saved, settings.label, device.partition(":")[0]))
            measured = []
            for repeat in saved.repeats:
                measured.append(measuring.ask(replayed, saved.case, repeat))
                say(_line(f"repeat {repeat.seed + 1}", measured[-1]))
                say(*_targets(measured[-1].apart, options.target))
            if copy is not None:
                _refuse_foreign(measuring, saved.case, copy)
        except BudgetError as error:
            msg = f"evidence {str(path)!r} has a perturbation that its threat forbids: {error}"
            raise UsageError(msg) from None
        except GrbCheckError as error:
            complain(error)
            return CANNOT_TELL
        _check_target(measured, options.target)
        wrong = _verdict(saved, measured)
        if wrong and options.grb_shrink:
            now = replace(saved, repeats=tuple(row.now for row in measured))
            _shrink(path, now, measuring, of_graphs=on.source.of_graphs)
    return FAILS if wrong else PASSES


def _refuse_foreign(measuring: Measuring, case: Case, copy: RevisionCopy) -> None:
    """Refuse what was imported from elsewhere than the revision.

    Raises:
        DataError: names the files.
    """
    files = measuring.ask(foreign, case, (str(copy.folder), str(copy.top)))
    if files:
        raise DataError(f"not of the revision, though imported: {', '.join(files[:3])}")


def _settings(options: argparse.Namespace, saved: Evidence) -> RunSettings:
    """Return the settings of a run that has the failed case alone.

    Raises:
        UsageError: an option is wrong, or a dataset cannot be found.
    """
    from grb_check.evaluation.devices import resolve_device  # imports torch

    model, places = _model(options, saved), _places(options, saved)
    resolve_device(options.grb_device)
    if options.grb_dataset:
        source = datasets.find(datasets.anchored(options.grb_dataset, Path.cwd()), places)
    else:
        given, selection = split_off_selection(saved.data.spec)
        name, equals, where = given.rpartition("=")
        moved = f"{name}{equals}{_moved(where, saved.data.base)}{selection}"
        source = datasets.find(moved, places)
    return RunSettings(
        models=(model,),
        datasets=(spec_of(source),),
        data=tuple(map(str, places.folders)),
        download=places.download,
        split=places.split,
        training=places.training,
        features=places.features,
        metric=places.metric,
        device=options.grb_device,
    )


def _model(options: argparse.Namespace, saved: Evidence) -> ModelSpec:
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
    if spec.target != saved.model.target:
        return spec
    recorded = spec.args if args else repr(dict(saved.model.args))
    return replace(spec, label=saved.model.name, args=recorded)


def _places(options: argparse.Namespace, saved: Evidence) -> Places:
    """Return where the dataset may be, which may have moved with the folder of the run.

    Raises:
        UsageError: a folder does not exist, or a rule is unknown.
    """
    folders = [expanded(folder).absolute() for folder in options.grb_data]
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(f"--grb-data: {str(folder)!r} is not a directory; give one")
    recorded = [Path(_moved(folder, saved.data.base)) for folder in saved.data.folders]
    return Places(
        folders=tuple(folders or [folder for folder in recorded if folder.is_dir()]),
        download=options.grb_download,
        split=chosen("split", saved.data.split, SPLIT_RULES),
        training=choose("training", saved.data.training, TRAININGS),
        features=chosen("features", saved.data.features, FEATURE_RULES),
        metric=None if saved.data.metric is None else check_metric(saved.data.metric),
    )


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


def _check_data(fingerprint: str, now: Mapping[str, int], saved: Evidence, dataset: str) -> None:
    """Check that the dataset is the recorded one.

    Raises:
        DataError: it is another one.
    """
    if fingerprint == saved.data.fingerprint:
        return
    then = saved.data.sizes
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
        f"dataset {dataset} is not the one that the case failed on: {what}; give that one with "
        f"--grb-dataset or --grb-data"
    )


def _opening(saved: Evidence, model: str, device: str) -> Iterator[str]:
    yield f"{saved.case.id} of {model}, {count(len(saved.repeats), 'repeat')}"
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


def _line(name: str, measured: ReplayedRepeat) -> str:
    now, then = measured.now, measured.recorded
    line = f"{name}: clean {now.clean:.1%} -> attacked {now.attacked:.1%}, drop {now.drop:.1%}"
    if measured.as_recorded:
        return f"{line}, as recorded"
    return (
        f"{line}; recorded: clean {then.clean:.1%} -> attacked {then.attacked:.1%}, drop "
        f"{then.drop:.1%}"
    )


def _check_target(measured: Sequence[ReplayedRepeat], wanted: int | None) -> None:
    """Check that a target can be shown.

    Raises:
        UsageError: the case does not attack single nodes, or not this one.
    """
    if wanted is None:
        return
    for apart in (row.apart for row in measured):
        if apart is None:
            raise UsageError("--target: this case does not attack single nodes; leave it out")
        if not _targets(apart, wanted):
            raise UsageError(f"--target={wanted}: this case has no such target")


def _targets(apart: SingleTargets | None, wanted: int | None) -> list[str]:
    """Lines on targets that are attacked each on its own: the wanted one, or the first lost."""
    if apart is None:
        return []
    if wanted in apart.kept:
        return [f"  target {wanted} keeps its class"]
    if wanted in apart.wrong:
        return [f"  target {wanted} was wrong without the attack"]
    chosen = [each for each in apart.lost if wanted is None or each.target == wanted]
    more = len(chosen) - SHOWN
    others = [f"  and {more} others; --target=NUMBER shows one"] if more > 0 else []
    return [*map(_lost_to, chosen[:SHOWN]), *others]


def _lost_to(lost: LostTarget) -> str:
    parts = [("with", lost.added), ("without", lost.removed)]
    changes = [
        f"{word} {', '.join(f'{one}-{other}' for one, other in pairs)}"
        for word, pairs in parts
        if pairs
    ]
    return f"  target {lost.target} has class {lost.now} {' and '.join(changes)}"


def _verdict(saved: Evidence, measured: Sequence[ReplayedRepeat]) -> str:
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


def _shrink(path: Path, now: Evidence, measuring: Measuring, *, of_graphs: bool) -> None:
    # Imports torch, which a wrong command line does not need.
    from grb_check.failures.counter_examples import NO_SINGLE_REPEAT, small_path

    try:
        small = measuring.ask(shrunk, now.case, (path.absolute(), now))
    except (GrbCheckError, OSError) as error:
        say(f"smallest counter-example: not found: {one_line(error)}")
        return
    if small is None:
        say(NO_SINGLE_REPEAT)
        return
    what = "graph" if of_graphs else "node"
    say(counter_example.summary(small), *counter_example.lines(small, what))
    say(f"kept as {small_path(path)}")
