"""Files of a project that runs the cases in its CI: what has to be added to them, and why.

Texts are extended and never rewritten, so that comments and order survive. What pytest reads of a
changed ini file is compared with what it read before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias

from grb_check.errors import UsageError
from grb_check.files.commit import git_output
from grb_check.session.pytest_private import ini_file, ini_values

Service: TypeAlias = Literal["github", "gitlab"]

IGNORED: Final = (".grb_check/", "grb-report/")  # the store, and reports of the CI job
WORKFLOWS: Final[Mapping[Service, str]] = {
    "github": ".github/workflows/robustness.yml",
    "gitlab": ".gitlab/robustness.yml",
}
_INCLUDE: Final = f"include:\n  - local: {WORKFLOWS['gitlab']}\n"
# The list of stages of a pipeline, to the next line that begins another key.
_STAGES: Final = re.compile(r"^stages[ \t]*:(.*\n?(?:[ \t\r#\]-].*\n?|\n)*)", re.MULTILINE)
_STAGE: Final = re.compile(r"^ +stage:[ \t]*(\S+)", re.MULTILINE)
# Tables of pytest in pyproject.toml; the first that is there is extended, or else the last is made.
_TABLES: Final = ("tool.pytest.ini_options", "tool.pytest")
_PACKAGE: Final = re.compile(r"^\s*\[\s*(project|build-system|tool\.poetry)\s*\]", re.MULTILINE)
_NEW_FILE: Final = "pytest.toml"  # a new pyproject.toml would make a package of the project


@dataclass(frozen=True)
class Change:
    """A file before and after; `before` is None for a new one."""

    path: Path
    before: str | None
    after: str


@dataclass(frozen=True)
class Setup:
    """The changes that a project needs, and notes on what is left to its owner."""

    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()


def repository(folder: Path) -> Path:
    """Return the root of the working tree of git that a directory is in, or the directory."""
    top = git_output(folder, "rev-parse", "--show-toplevel").rstrip("\n")
    return Path(top) if top else folder


def service(root: Path) -> Service | None:
    """Return the service whose CI a repository uses: by its files, or else by its remote."""
    if (root / ".github").is_dir():
        return "github"
    if (root / ".gitlab-ci.yml").exists():
        return "gitlab"
    url = git_output(root, "config", "--get", "remote.origin.url")
    host = re.sub(r"^(\w+://)?([^@/]*@)?", "", url.strip()).partition("/")[0].partition(":")[0]
    return next((name for name in WORKFLOWS if name in host.lower()), None)


def ini_setup(root: Path, values: Mapping[str, str]) -> Setup:
    """Return the change of pytest's ini file that gives it values.

    Args:
        root: of the project.
        values: by name; those that the file has already are left as they are.

    Raises:
        UsageError: pytest cannot read the file.
    """
    path = ini_file(root) or root / _NEW_FILE
    before = _text(path)
    known = {} if before is None else ini_values(path) or {}
    added = {name: value for name, value in values.items() if name not in known}
    notes = tuple(
        f"{path.name} has {name} = {known[name]} already, which is left as it is"
        for name, value in values.items()
        if name in known and known[name] not in (value, [value])
    )
    if not added:
        return Setup(notes=notes)
    lines = [_line(path, name, value) for name, value in added.items()]
    after = _with_lines(path, before or "", lines)
    if not _reads(path, after, {**known, **added}):
        by_hand = f"{path.name} has a form that is not changed here; add: {'; '.join(lines)}"
        return Setup(notes=(*notes, by_hand))
    return Setup((Change(path, before, after),), notes)


def gitignore_setup(root: Path) -> Setup:
    """Return the change that keeps perturbations, evidence and reports out of a repository."""
    if not (root / ".git").exists():
        return Setup()
    path = root / ".gitignore"
    before = _text(path)
    names = {line.strip().strip("/") for line in (before or "").splitlines()}
    lines = "".join(f"{each}\n" for each in IGNORED if each.strip("/") not in names)
    return Setup((Change(path, before, _appended(before or "", lines)),)) if lines else Setup()


def workflow_setup(root: Path, where: Service) -> Setup:
    """Return the job that runs the cases; a file of its name is left as it is."""
    path = root / WORKFLOWS[where]
    text = resources.files(__package__).joinpath(f"templates/{where}.yml").read_text("utf-8")
    made = text.replace("@INSTALL@", " ".join([*_requirements(root), "grb-check"]))
    before, more = _text(path), Setup()
    if where == "gitlab":
        more = _include_setup(root / ".gitlab-ci.yml", made if before is None else before)
    if before is None:
        return Setup((Change(path, None, made), *more.changes), more.notes)
    kept = f"{WORKFLOWS[where]} is there already, and is left as it is"
    return Setup(more.changes, (*([] if before == made else [kept]), *more.notes))


def _include_setup(path: Path, job: str) -> Setup:
    before = _text(path)
    stages, named = _stages(before or ""), _STAGE.search(job)
    stage = named[1] if named else "test"  # GitLab's default
    if stages and stage not in stages:
        lacks = f"{path.name} has the stages {', '.join(stages)} and not {stage!r}"
        mend = "add it, or name one of them there, and run init again to include the file"
        return Setup(notes=(f"{lacks}, which {WORKFLOWS['gitlab']} names; {mend}",))
    if before is not None and WORKFLOWS["gitlab"] in before:
        return Setup()
    if before is not None and re.search(r"^include\s*:", before, re.MULTILINE):
        line = f"- local: {WORKFLOWS['gitlab']}"
        return Setup(notes=(f"{path.name} has an include already; add {line!r} to it",))
    return Setup((Change(path, before, _appended(before or "", _INCLUDE)),))


def _stages(text: str) -> list[str]:
    """The stages of a pipeline; none if it lists none, or refers to a list elsewhere."""
    found = _STAGES.search(text)
    body = re.sub(r"(^|\s)#.*", "", found[1]) if found else ""
    if re.search(r"[!&*]", body):
        return []
    items = (item.strip().removeprefix("-").strip(" '\"") for item in re.split(r"[\n,\[\]]", body))
    return [item for item in items if item]


def _requirements(root: Path) -> list[str]:
    """The arguments of pip that install the project."""
    described = _text(root / "pyproject.toml") or ""  # or it is there for tools alone
    if _PACKAGE.search(described) or (root / "setup.py").exists():
        return ["."]
    return ["-r", "requirements.txt"] if (root / "requirements.txt").exists() else []


def _text(path: Path) -> str | None:
    """The content of a file with its line ends; None if there is none.

    Raises:
        UsageError: it is not a text.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(path)!r} cannot be read as text ({error}); mend it") from None


def _line(path: Path, name: str, value: str) -> str:
    shown = json.dumps(value, ensure_ascii=False) if path.suffix == ".toml" else value
    return f"{name} = {shown}"


def _with_lines(path: Path, text: str, lines: Sequence[str]) -> str:
    """The text with lines at the top of pytest's section, which is made if there is none."""
    end = "\r\n" if "\r\n" in text else "\n"
    if path.name == "pyproject.toml":
        sections: Sequence[str] = _TABLES
    else:
        sections = ("tool:pytest" if path.suffix == ".cfg" else "pytest",)
    rows = text.splitlines(keepends=True)
    for section in sections:
        words = r"\s*\.\s*".join(map(re.escape, section.split(".")))
        header = re.compile(rf"\[\s*{words}\s*\]\s*(#.*)?")
        for place, row in enumerate(rows):
            if header.fullmatch(row.strip()):
                rows[place] = row.rstrip("\r\n")
                return end.join(["".join(rows[: place + 1]), *lines, "".join(rows[place + 1 :])])
    block = "".join(f"{line}{end}" for line in (f"[{sections[-1]}]", *lines))
    return _appended(text, f"{end}{block}" if text.strip() else block)


def _appended(text: str, more: str) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    gap = end if text and not text.endswith("\n") else ""
    return f"{text}{gap}{more}"


def _reads(path: Path, text: str, expected: Mapping[str, object]) -> bool:
    """Whether pytest reads these values in a file of that name with this text."""
    with TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(text.encode())
        try:
            return ini_values(copy) == expected
        except UsageError:
            return False
