"""The side of the base: the same cases, of the models as they are at another revision.

They are measured by a run of pytest of its own, in a copy of the files of that revision, with the
same seeds and the same black-box perturbations. Nothing of the working tree may be imported there.
What it finds is kept in the store, under the digest of the revision's files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from grb_check import datasets
from grb_check.cases.node_ids import node_id_of
from grb_check.errors import UsageError
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.baselines.files import BaselineFile, read_baseline
from grb_check.gate.baselines.uncompared import USER_TESTS
from grb_check.runs.resume import packages_digest
from grb_check.session.planning import SessionPlan
from grb_check.settings import pytest_options
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.options import OPTIONS, UPDATE_FLAG
from grb_check.settings.raw_values import RawValues, read_raw
from grb_check.store.place import open_store
from grb_check.store.store import Store
from grb_check.user_code.revisions import (
    Revision,
    belongs_to,
    not_of,
    remove_stale,
    working_digest,
    worktree,
)

VARIABLE: Final = "GRB_CHECK_BASE"  # of the environment of the run at the base
PLUGIN: Final = "grb_check.session.base_process"
WAIT: Final = 0.2  # seconds between two looks at that run
LAST: Final = 6  # lines of a failed run that are shown
INI_FILE: Final = "grb_check-base.ini"  # takes the place of that revision's own
OF_TESTS: Final = ("python_files", "python_classes", "python_functions")  # are those of this run
ENDED: Final = (0, 1)  # exit statuses of a run that has measured: passed, and with failures
SELECTING: Final = ("grb_suite", "grb_difficulty", "grb_attack", "grb_budget", "grb_case")
SAME_FOR_BOTH: Final = ("grb_split", "grb_features", "grb_device")


@dataclass(frozen=True, kw_only=True)
class _Side:
    """What the run at the base needs to know.

    Attributes:
        revision: to measure.
        config: pytest's.
        raw: values of the options.
        plan: of this run.
        known: what figures depend on, by name: see `base_baseline`.
        show: is told how far it is.
    """

    revision: Revision
    config: pytest.Config
    raw: RawValues
    plan: SessionPlan
    known: Mapping[str, str]
    show: Callable[[str], None]

    def moved(self, path: Path, folder: Path) -> Path:
        """Return the same place in the copy `folder`; the path itself outside the repository."""
        path = path.resolve()
        top = self.revision.top.resolve()
        return folder / path.relative_to(top) if path.is_relative_to(top) else path

    def existing(self, path: Path, folder: Path) -> Path:
        """Return the same place in the copy, if there is something, else that of this run."""
        moved = self.moved(path, folder)
        return moved if moved.exists() else path.resolve()


@dataclass(frozen=True, kw_only=True)
class UserTests:
    """Users' own tests that ask for a verdict.

    Attributes:
        items: the tests.
        data: files and folders of their datasets.
    """

    items: Sequence[pytest.Item] = ()
    data: Sequence[Path] = ()


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What one run at the base measures: the cases of a model, or users' own tests.

    Attributes:
        name: label of the model, or `USER_TESTS`.
        models: that are named.
        tests: of users.
    """

    name: str
    models: tuple[ModelSpec, ...]
    tests: UserTests = UserTests()

    @property
    def ids(self) -> list[str]:
        """Node ids of the tests."""
        return [item.nodeid for item in self.tests.items]

    def files(self, side: _Side, folder: Path) -> list[Path]:
        """Return the files of the tests that the copy has; data that it lacks is linked there."""
        for path in self.tests.data:
            target = side.moved(path, folder)
            if path.exists() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(path.resolve(), target_is_directory=path.is_dir())
        every = [side.moved(item.path, folder) for item in self.tests.items]
        return [path for path in dict.fromkeys(every) if path.exists()]


def base_baseline(
    config: pytest.Config,
    plan: SessionPlan,
    known: Mapping[str, str],
    show: Callable[[str], None],
    tests: UserTests,
) -> Baseline:
    """Return what the models of a run leave at its base, as a baseline.

    Args:
        config: pytest's.
        plan: of the run, whose settings have a base.
        known: environment of the run, see `measured_with`, and fingerprints of its datasets.
        show: is told several times a second how far it is.
        tests: that are measured, besides what is known; without any, the built-in cases are.

    Raises:
        UsageError: the base cannot be measured.
    """
    settings = plan.settings
    revision = plan.inputs.revision
    assert revision is not None
    raw = read_raw(pytest_options.lookup(config), config.rootpath, config.invocation_params.dir)
    side = _Side(revision=revision, config=config, raw=raw, plan=plan, known=known, show=show)
    if installed := not_of(revision.top.resolve(), revision.top.resolve()):
        raise UsageError(_foreign(revision, installed))
    remove_stale(revision.top)
    same = revision.digest == working_digest(revision.top)
    before = plan.inputs.baseline
    entries = dict(before.saved.entries) if before is not None else {}
    failures = dict(before.failures) if before is not None else {}
    labels = {settings.model(case.model).label for case in plan.cases.part}
    parts = [
        _Part(name=model.label, models=(model,))
        for model in settings.models
        if model.label in labels
    ]
    if tests.items:
        parts = [_Part(name=USER_TESTS, models=settings.models[:1], tests=tests)]
    for name, result in ({} if same else _found(side, parts)).items():
        if isinstance(result, str):
            failures[name] = result
        elif result is not None:
            entries |= result.entries
    return Baseline(
        path=Path(str(revision)),
        margin=settings.margin,
        model=settings.only_label,
        saved=BaselineFile(entries=entries),
        revision=str(revision),
        same=same,
        failures=failures,
        planned=len(plan.cases.cases) + len(tests.items),
    )


def _found(side: _Side, parts: Sequence[_Part]) -> dict[str, BaselineFile | str | None]:
    """What each part leaves at the base, from the store or measured now, see `_measured`."""
    store = open_store(side.plan.settings.execution.store)
    result: dict[str, BaselineFile | str | None] = {
        part.name: _stored(store, side, part) for part in parts
    }
    missing = [part for part in parts if result[part.name] is None]
    if missing:
        with worktree(side.revision) as folder:
            for part in missing:
                result[part.name] = _measured(side, part, folder, store)
    return result


def _key(store: Store, side: _Side, part: _Part) -> str:
    """The key of what a part leaves at the base: all that it depends on."""
    return store.key(
        kind="base",
        files=side.revision.digest,
        arguments=repr((_options(side, part, Path("base")), part.ids, side.config.option.plugins)),
        known=repr(sorted(side.known.items())),
        packages=packages_digest(tuple(sys.path)),
    )


def _stored(store: Store, side: _Side, part: _Part) -> BaselineFile | None:
    text = store.load_text(_key(store, side, part))
    if text is None:
        return None
    with tempfile.TemporaryDirectory(prefix="grb_check-") as folder, suppress(UsageError):
        path = Path(folder) / "base.json"
        path.write_text(text)
        return read_baseline(path)
    return None  # of another format


def _measured(side: _Side, part: _Part, folder: Path, store: Store) -> BaselineFile | str | None:
    """Return what a part leaves at the base.

    None if it is not there; in words why it has no figures, if it fails there.

    Raises:
        UsageError: the run imported something that is not of the base.
    """
    files = part.files(side, folder)
    if part.ids and not files:
        return None
    with tempfile.TemporaryDirectory(prefix="grb_check-") as text:
        out = Path(text)
        answer_path, result, log = out / "answer.json", out / "base.json", out / "log.txt"
        about = {
            "parent": os.getpid(),
            "top": str(side.revision.top.resolve()),
            "copy": str(folder),
            "targets": [model.target for model in part.models],
            "tests": part.ids,
            "answer": str(answer_path),
        }
        command = [*_command(side, part, folder, result), *map(str, files)]
        status = _run(side, folder, command, _environment(side, part.models, folder, about), log)
        answer = json.loads(answer_path.read_text()) if answer_path.exists() else {}
        absent = part.ids and status == pytest.ExitCode.NO_TESTS_COLLECTED
        if answer.get("missing") or absent:
            return None
        if answer.get("foreign"):
            raise UsageError(_foreign(side.revision, answer["foreign"]))
        if answer.get("failed") or status not in ENDED or not result.exists():
            what = part.name if part.ids else part.models[0].target
            why = answer.get("failed") or _error_in(log)
            last = "\n".join(why.splitlines()[-LAST:])
            return f"{what}: no figures at {side.revision}: {last}"
        store.save_text(_key(store, side, part), result.read_text())
        return read_baseline(result)


def _command(side: _Side, part: _Part, folder: Path, result: Path) -> list[str]:
    """The command line of the run at the base, without files of tests."""
    config = side.config
    root = side.moved(config.rootpath, folder)
    home = root if root.is_relative_to(folder) else result.parent
    home.mkdir(parents=True, exist_ok=True)
    names = [f"{name} = {' '.join(config.getini(name))}" for name in OF_TESTS]
    (home / INI_FILE).write_text("\n".join(["[pytest]", *names]))
    return [
        *(sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-q"),
        *(f"-p{plugin}" for plugin in config.option.plugins),
        *("-c", str(home / INI_FILE), f"--rootdir={root}", f"--confcutdir={root}"),
        f"--import-mode={config.option.importmode}",
        "--continue-on-collection-errors",
        *_options(side, part, folder),
        *(f"--grb-jobs={text}" for text in side.raw.texts("grb_jobs")),
        *("--grb-max-drop=1", "--grb-min-clean=0", "--grb-evidence=off"),
        *(f"--grb-baseline={result}", UPDATE_FLAG),
    ]


def _foreign(revision: Revision, files: Sequence[str]) -> str:
    return (
        f"--grb-base={revision.name}: {', '.join(files[:3])} would be the same at both sides: "
        f"imported from the working tree, or from an installed copy of what the repository has; "
        f"install the package with `pip install -e .`, and add new files to that revision"
    )


def _run(
    side: _Side, folder: Path, command: Sequence[str], environment: Mapping[str, str], log: Path
) -> int:
    """Run pytest at the base, and return its exit status."""
    cwd = side.moved(side.config.invocation_params.dir, folder)
    cwd.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=cwd, env=dict(environment), stdout=file, stderr=subprocess.STDOUT
        )
        try:
            while True:
                try:
                    return process.wait(WAIT)
                except subprocess.TimeoutExpired:
                    side.show(f"base {side.revision}: {_last_word(log)}")
        finally:
            process.kill()
            process.wait()


def _last_word(log: Path) -> str:
    """The last line of progress in a log of pytest."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    progress = [line.removeprefix("grb: ") for line in lines if line.startswith("grb: ")]
    return progress[-1] if progress else "measuring"


def _error_in(log: Path) -> str:
    """The error in a log of pytest: its last lines, from the word ERROR on if that is there."""
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    _, marker, error = text.rpartition("\nERROR: ")
    return error if marker else text


def _options(side: _Side, part: _Part, folder: Path) -> list[str]:
    """The options that select and measure the cases of a part as this run does."""
    raw, plan, models = side.raw, side.plan, part.models
    settings, store = plan.settings, plan.settings.execution.store
    arguments = raw.texts("grb_model_args")
    of_each = [arguments[settings.models.index(model) :][:1] or arguments[:1] for model in models]
    selecting = [
        *(f"--grb-model={model.label}={model.target}" for model in models),
        *(f"--grb-model-args={argument}" for model_args in of_each for argument in model_args),
        *(f"--grb-dataset={dataset}" for dataset in _datasets(side, folder)),
        *_given(raw, SELECTING),
    ]
    result = [
        *(selecting if models else []),  # users' own tests may bring their model
        *_given(raw, SAME_FOR_BOTH),
        *(["--grb-training=transductive"] * (settings.places.training == "transductive")),
        f"--grb-repeats={settings.repeats}",
        *(
            f"--grb-data={side.existing(data_folder, folder)}"
            for data_folder in settings.places.folders
        ),
        f"--grb-store={'off' if store is None else store.text}",
    ]
    if settings.pack:
        result.append(f"--grb-pack={Path(settings.pack).resolve()}")
    if part.ids:
        return result
    cases = [case for case in plan.cases.part if settings.model(case.model) in models]
    return [*result, "--grb-only", *(node_id_of(replace(case, model="")) for case in cases)]


def _given(raw: RawValues, names: Sequence[str]) -> list[str]:
    """The options of these names as they were given."""
    chosen = [option for option in OPTIONS if option.dest in names]
    return [f"{option.flag}={text}" for option in chosen for text in raw.texts(option.dest)]


def _datasets(side: _Side, folder: Path) -> list[str]:
    """The datasets of this run; their files are those of the base where it has them."""
    given = side.raw.many("grb_dataset")
    texts = [datasets.anchored(name, side.raw.base("grb_dataset")) for name in given]
    result = []
    for text in texts:
        name, equals, path = text.rpartition("=")
        if Path(path).is_absolute():
            path = str(side.existing(Path(path), folder))
        result.append(f"{name}{equals}{path}")
    return result


def _environment(
    side: _Side, models: Sequence[ModelSpec], folder: Path, about: Mapping[str, Any]
) -> dict[str, str]:
    """The variables of the run at the base: its modules are found in the copy first."""
    top = side.revision.top.resolve()
    places = [Path(entry) for entry in sys.path if entry]
    for model in models:
        spec = find_spec(model.target.partition(":")[0].partition(".")[0])
        packages = (spec and spec.submodule_search_locations) or ()
        places += [Path(location).parent for location in packages]
    repository_paths = [path for path in places if belongs_to(top, path)]
    first = dict.fromkeys(str(side.moved(path, folder)) for path in repository_paths)
    before = os.environ.get("PYTHONPATH", "")
    retained = [
        entry
        for entry in before.split(os.pathsep)
        if entry and entry not in map(str, repository_paths)
    ]
    result = {name: text for name, text in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return result | {
        "PYTHONPATH": os.pathsep.join([*first, *retained]),
        "PYTHONDONTWRITEBYTECODE": "1",
        VARIABLE: json.dumps(about),
    }
