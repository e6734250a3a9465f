"""The side of the base: the same cases, of the models as they are at another revision.

They are measured by workers whose directory and path are a copy of the files of that revision, with
the same seeds and the same black-box perturbations. Nothing of the working tree may be imported
there. What is found is stored under the digest of the revision's files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import msgspec

from grb_check.cases.case import Case
from grb_check.errors import UsageError, reason
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.baselines.files import (
    BaselineCase,
    BaselineContent,
    BaselineFile,
    content_of,
    entry_of,
    saved_of,
)
from grb_check.gate.baselines.uncompared import USER_TESTS
from grb_check.runs.inputs import Inputs
from grb_check.runs.measuring import Measuring, Terminal
from grb_check.runs.resume import packages_digest
from grb_check.runs.revision_copy import RevisionCopy
from grb_check.runs.revision_steps import absent, foreign
from grb_check.runs.start import calls_for
from grb_check.runs.tasks import ModelOnDataset
from grb_check.settings.selecting import source_of
from grb_check.settings.settings import RunSettings
from grb_check.store.place import open_store
from grb_check.store.store import Store
from grb_check.user_code.revisions import (
    Revision,
    not_of,
    remove_stale,
    working_digest,
    worktree,
)

Entries: TypeAlias = Mapping[str, BaselineCase]


@dataclass(frozen=True, kw_only=True)
class BaseCase:
    """A case to measure at the base.

    Attributes:
        case: with the label of its model in a run of several.
        repeats: number of them.
        test: node id of the user's own test that asks for it; empty for a built-in case.
    """

    case: Case
    repeats: int
    test: str = ""


class BaseSide:
    """The models of a run as they are at its base: measured, or taken from the store.

    The copy of the revision's files and its workers are made when something has to be measured, and
    are there until `close`: cases that are in doubt are measured again in more repeats.

    Args:
        revision: of the run.
        cwd: working directory.
        terminal: shows how far it is.

    Raises:
        UsageError: its files are those that this process has imported.
    """

    def __init__(self, revision: Revision, cwd: Path, terminal: Terminal | None = None) -> None:
        top = revision.top.resolve()
        if installed := not_of(top, top):
            raise _not_of_the_base(revision, installed)
        remove_stale(revision.top)
        self._revision = revision
        self._cwd = cwd
        self._shown = None if terminal is None else _AtBase(terminal, f"base {revision}")
        self._same = revision.digest == working_digest(revision.top)
        self._known: Mapping[str, str] = {}
        self._settings: RunSettings | None = None
        self._stack = ExitStack()
        self._copy: RevisionCopy | None = None
        self._measuring: Measuring | None = None

    def baseline(
        self, inputs: Inputs, cases: Sequence[BaseCase], known: Mapping[str, str], run_size: int
    ) -> Baseline:
        """Return what the models leave in these cases.

        Args:
            inputs: of the run.
            cases: to measure.
            known: environment of the run, see `measured_with`, and fingerprints of its datasets.
            run_size: number of cases of the whole run.

        Raises:
            UsageError: the base cannot be measured, or would be the same as the working tree.
        """
        self._settings, self._known = inputs.settings, known
        entries: dict[str, BaselineCase] = {}
        failures: dict[str, str] = {}
        for name, result in ({} if self._same else self._results(cases)).items():
            if isinstance(result, str):
                failures[name] = result
            else:
                entries |= result
        return Baseline(
            path=Path(str(self._revision)),
            margin=self._settings.margin,
            model=self._settings.only_label,
            saved=BaselineFile(entries=entries),
            revision=str(self._revision),
            same=self._same,
            stored=self._measuring is None and bool(entries),
            failures=failures,
            run_size=run_size,
            first=self._settings.repeats,
        )

    def entries(self, cases: Sequence[BaseCase]) -> dict[str, BaselineCase]:
        """Return cases that were measured before, in more repeats, by their key in a baseline.

        Raises:
            UsageError: one cannot be measured any more; says why.
        """
        entries: dict[str, BaselineCase] = {}
        for result in self._results(cases).values():
            if isinstance(result, str):
                raise UsageError(result)
            entries |= result
        return entries

    def close(self) -> None:
        """Release the workers, and remove the copy of the files."""
        self._stack.close()

    @property
    def _asked(self) -> RunSettings:
        assert self._settings is not None
        return self._settings

    def _results(self, cases: Sequence[BaseCase]) -> dict[str, Entries | str]:
        """The entries of each model, or why it has no figures.

        Users' own tests are a group of their own.
        """
        settings, revision = self._asked, self._revision
        groups: dict[str, list[BaseCase]] = {}
        for asked in cases:
            label = USER_TESTS if asked.test else settings.model(asked.case.model).label
            groups.setdefault(label, []).append(asked)
        store = open_store(settings.execution.store)
        keys = {
            name: _key(store, settings, revision, group, self._known)
            for name, group in groups.items()
        }
        stored = {name: _load(store, key) for name, key in keys.items()}
        result: dict[str, Entries | str] = {
            name: entries for name, entries in stored.items() if entries is not None
        }
        unknown = {name: group for name, group in groups.items() if name not in result}
        for name, entries in (self._measured(unknown) if unknown else {}).items():
            result[name] = entries
            if not isinstance(entries, str):
                content = content_of(BaselineFile(entries=entries))
                store.save_text(keys[name], msgspec.json.encode(content).decode())
        return result

    def _measured(self, groups: Mapping[str, Sequence[BaseCase]]) -> dict[str, Entries | str]:
        """Measure groups of cases in a copy of the revision.

        Raises:
            UsageError: something was imported that is not of the base.
        """
        copy = self._copied()
        there = copy.settings(self._asked, self._revision.digest)
        if self._measuring is None:
            tasks = sum(asked.repeats for group in groups.values() for asked in group)
            calls = calls_for(there, tasks, copy.place(self._cwd, self._asked))
            self._measuring = self._stack.enter_context(
                closing(Measuring(calls, there, self._model_of, self._shown, _not_of_this_run))
            )
        self._measuring.settings = there
        result = {
            name: _group(self._measuring, there, name, group, self._revision)
            for name, group in groups.items()
        }
        first = next(iter(groups.values()))[0].case
        answers = self._measuring.ask_all(foreign, first, (str(copy.folder), str(copy.top)))
        if files := [file for answer in answers for file in answer]:
            raise _not_of_the_base(self._revision, files)
        return {name: entries for name, entries in result.items() if entries is not None}

    def _copied(self) -> RevisionCopy:
        if self._copy is None:
            folder = self._stack.enter_context(worktree(self._revision))
            self._copy = RevisionCopy(self._revision.top.resolve(), folder)
        return self._copy

    def _model_of(self, case: Case) -> ModelOnDataset:
        there = self._copied().settings(self._asked, self._revision.digest)
        return ModelOnDataset(there.model(case.model), source_of(there, case.dataset))


def _key(
    store: Store,
    settings: RunSettings,
    revision: Revision,
    cases: Sequence[BaseCase],
    known: Mapping[str, str],
) -> str:
    """The key of what cases leave at the base: all that it depends on."""
    rules = (settings.split, settings.training, settings.features, settings.metric, settings.device)
    models = {settings.model(wanted.case.model) for wanted in cases}
    return store.key(
        kind="base",
        files=revision.digest,
        models=repr(sorted((model.label, model.target, model.args) for model in models)),
        cases=repr([(wanted.test, wanted.case.id, wanted.repeats) for wanted in cases]),
        settings=repr((settings.datasets, settings.data, settings.selected, *rules)),
        pack=settings.pack_digest,
        known=repr(sorted(known.items())),
        packages=packages_digest(tuple(sys.path)),
    )


def _load(store: Store, key: str) -> Entries | None:
    text = store.load_text(key)
    if text is None:
        return None
    try:
        return saved_of(msgspec.json.decode(text, type=BaselineContent), "the base").entries
    except (msgspec.MsgspecError, UsageError):  # of another format
        return None


def _not_of_this_run(_category: str, _text: str, _file: str, _line: int) -> None:
    """Drop a warning: it is of files of the base, which nobody can change any more."""


def _group(
    measuring: Measuring,
    settings: RunSettings,
    name: str,
    cases: Sequence[BaseCase],
    revision: Revision,
) -> Entries | str | None:
    """The entries of a group; None if its model is not there, or in words why it has none."""
    of_tests = name == USER_TESTS
    model = settings.model(cases[0].case.model)
    entries: dict[str, BaselineCase] = {}
    try:
        if measuring.ask(absent, cases[0].case):
            return None
        repeats: dict[Case, int] = {}
        for wanted in cases:
            repeats[wanted.case] = max(repeats.get(wanted.case, 0), wanted.repeats)
        measuring.check(repeats, max(repeats.values()))
        measuring.submit_all(repeats, {})
        for wanted in cases:
            key = wanted.test or f"{model.label}@{replace(wanted.case, model='').id}"
            outcome = measuring.result(wanted.case, model.label, wanted.repeats).outcome
            entries[key] = entry_of(outcome)
    except Exception as error:  # of the user's model at the base, a lost worker included
        said = reason(str(error)) or type(error).__name__
        return f"{USER_TESTS if of_tests else model.target}: no figures at {revision}: {said}"
    return entries


@dataclass(frozen=True)
class _AtBase:
    """The progress of a run, with what it is the progress of."""

    terminal: Terminal
    name: str

    def poll(self, text: Callable[[], str]) -> None:
        self.terminal.poll(lambda: f"{self.name}: {text()}")

    def log(self, text: Callable[[], str]) -> None:
        self.terminal.log(lambda: f"{self.name}: {text()}")

    def clear(self) -> None:
        self.terminal.clear()


def _not_of_the_base(revision: Revision, files: Sequence[str]) -> UsageError:
    return UsageError(
        f"--grb-base={revision.name}: {', '.join(files[:3])} would be the same at both sides: "
        f"imported from the working tree, or from an installed copy of what the repository has; "
        f"install the package with `pip install -e .`, and add new files to that revision"
    )
