"""Revisions of the user's repository: what git knows of them, and a copy of their files.

Loads no torch. git is called as a program; nothing of the repository changes but the list of its
worktrees, which is put in order again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grb_check.errors import UsageError

PREFIX: Final = "grb_check-base-"  # of folders of worktrees; the process that made it follows
TEXTS: Final = (".md", ".rst")  # files that no model depends on
OF_HOOKS: Final = (  # set by a hook of git that runs the tests, for another purpose
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
)
NO_FILES: Final = (":(top,exclude,glob)**/__pycache__/**",)  # that no model depends on, either
ANYWHERE: Final = ("__main__", "conftest")  # modules that are many files
SEEN: Final = 12  # digits of a commit, as shown


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A commit of a repository.

    Attributes:
        name: as the user gave it.
        top: folder of the repository.
        commit: hex digest.
    """

    name: str
    top: Path
    commit: str

    def __str__(self) -> str:
        return f"{self.name} ({self.commit[:SEEN]})"

    @property
    def digest(self) -> str:
        """The digest of the files of the commit, see `files_digest`."""
        return files_digest(self.top, self.commit)


def find_revision(name: str, folder: Path, option: str) -> Revision:
    """Return the commit that a name stands for.

    Args:
        name: anything that git knows; `A...` and `A...B` are the merge base of A and B, or HEAD.
        folder: a folder of the repository.
        option: that gives the name, for messages.

    Raises:
        UsageError: git is missing, the folder lies in no repository, or that has no such commit.
    """
    if not name.isprintable():
        raise UsageError(f"{option}={name!r} is not a revision; give a commit, a branch or a tag")
    given = f"{option}={name}"
    if shutil.which("git") is None:
        raise UsageError(f"{given} needs git, which is not installed here")
    try:
        top = _run(folder, "rev-parse", "--show-toplevel").strip()
    except UsageError as error:
        raise UsageError(
            f"{given}: {error}; run it inside a repository, or compare with a file by "
            f"--grb-baseline"
        ) from None
    first, dots, second = name.partition("...")
    if name.startswith("-"):
        commit = ""
    elif dots:
        commit = _asked(folder, "merge-base", first, second or "HEAD")
    else:
        commit = _asked(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if commit:
        return Revision(name=name, top=Path(top), commit=commit)
    raise UsageError(f"{given}: {_why_missing(folder, name)}")


def _why_missing(folder: Path, name: str) -> str:
    what = "the repository has no such revision"
    if "..." in name:
        what = "the repository has no common ancestor of the two"
    elif not name.startswith("-") and _asked(folder, "cat-file", "-t", name):
        return "it is no commit; give a commit, a branch or a tag"
    if _asked(folder, "rev-parse", "--is-shallow-repository") == "true":
        return (
            f"{what}; this clone is shallow: if that is why, get its history by `git fetch "
            f"--unshallow origin`, or by `fetch-depth: 0` of actions/checkout"
        )
    remote, slash, branch = name.partition("...")[0].partition("/")
    if slash and remote in _asked(folder, "remote").split():
        return f"{what}; get it by `git fetch {remote} {branch}`"
    return f"{what}; `git branch --all` and `git tag` list those that it has"


def files_digest(top: Path, tree: str) -> str:
    """Return the hex digest of the names and contents of all files of a commit or tree.

    Texts are left out (`TEXTS`).
    """
    return _digest(_run(top, "ls-tree", "-r", "-z", "--full-tree", tree))


def _digest(listing: str) -> str:
    lines = [line for line in listing.split("\0") if not line.lower().endswith(TEXTS)]
    return hashlib.sha256("\0".join(lines).encode()).hexdigest()


def working_digest(top: Path) -> str:
    """Return the `files_digest` of the working tree, with files that git does not track.

    What git ignores is left out. Nothing of the repository changes: new objects and the index are
    those of a folder that is removed.
    """
    with tempfile.TemporaryDirectory(prefix="grb_check-") as folder:
        objects, index = Path(folder) / "objects", Path(folder) / "index"
        objects.mkdir()
        known = _run(top, "rev-parse", "--path-format=absolute", "--git-path", "objects").strip()
        git_index = _run(top, "rev-parse", "--path-format=absolute", "--git-path", "index").strip()
        with suppress(OSError):  # a repository without an index
            shutil.copy2(
                git_index, index
            )  # with its time, by which git knows which files may differ
        apart = {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": known,
        }
        _run(top, "add", "--all", "--", ":/", *NO_FILES, apart=apart)
        tree = _run(top, "write-tree", apart=apart).strip()
        listing = _run(top, "ls-tree", "-r", "-z", "--full-tree", tree, apart=apart)
    changed = [
        working_digest(top / path)
        for path in _submodules(top, listing)
        if _run(
            top / path, "status", "--porcelain"
        )  # changes that the commit in the tree does not show
    ]
    return _digest("\0".join([listing, *changed]))


def _submodules(top: Path, listing: str) -> dict[str, str]:
    """The submodules of a tree that are here: path -> commit."""
    lines = [line.partition("\t") for line in listing.split("\0") if line.startswith("160000 ")]
    return {path: about.split()[2] for about, _, path in lines if (top / path / ".git").exists()}


@contextmanager
def worktree(revision: Revision) -> Iterator[Path]:
    """Copy the files of a revision to a folder outside the repository, and remove it at the end.

    Submodules that are checked out here are copied as that revision has them.

    Raises:
        UsageError: git cannot make it, or a submodule lacks its commit.
    """
    parent = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")).resolve()
    folder = parent / revision.top.name
    try:
        _check_out(revision.top, revision.commit, folder)
        yield folder
    finally:
        _remove(revision.top, folder)


def belongs_to(top: Path, path: Path) -> bool:
    """Return whether a path is in a repository, and not in an environment that lies in it."""
    path, environment = path.resolve(), Path(sys.prefix).resolve()
    installed = environment.is_relative_to(top) and path.is_relative_to(environment)
    return path.is_relative_to(top) and not installed


def not_of(folder: Path, top: Path) -> list[str]:
    """Return the files of imported modules that are not those of a folder and should be.

    They are in the repository, but not there, or are another copy, as an installed one, of a module
    that the folder has.

    Args:
        folder: a worktree: the repository itself, or what `worktree` made.
        top: folder of the repository.
    """
    names = _module_names(_run(folder, "ls-files", "-z").split("\0"))
    ours, result = Path(__file__).parents[1], []
    for name, module in [*sys.modules.items()]:
        given = Path(getattr(module, "__file__", None) or "")  # torch has some without a folder
        known = name.partition(".")[0] in (*sys.stdlib_module_names, *ANYWHERE)
        if known or not given.is_absolute() or belongs_to(folder, given) or ours in given.parents:
            continue
        if belongs_to(top, given) or name in names:
            result.append(str(given))
    return sorted(result)


def _module_names(files: Sequence[str]) -> set[str]:
    """The names under which files are imported from the top, or from any folder `src`."""
    result = set()
    for path in (Path(file) for file in files if file.endswith(".py")):
        for root in (parent for parent in path.parents if parent.name in ("", "src")):
            parts = path.relative_to(root).with_suffix("").parts
            result.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return result


def _check_out(top: Path, commit: str, folder: Path) -> None:
    """Make a worktree of a commit, and of its submodules in it."""
    _run(top, "worktree", "add", "--detach", "--force", str(folder), commit)
    listing = _run(top, "ls-tree", "-r", "-z", "--full-tree", commit)
    for path, of_submodule in _submodules(top, listing).items():
        _check_out(top / path, of_submodule, folder / path)


def remove_stale(top: Path) -> None:
    """Remove the worktrees of processes that have ended without doing so."""
    for line in _run(top, "worktree", "list", "--porcelain").splitlines():
        kind, _, text = line.partition(" ")
        name = Path(text).parent.name
        if kind != "worktree" or not name.startswith(PREFIX):
            continue
        number = name.removeprefix(PREFIX).partition("-")[0]
        if number.isdigit() and not _is_alive(int(number)):
            _remove(top, Path(text))


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # where a signal of this number would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


def _remove(top: Path, folder: Path) -> None:
    shutil.rmtree(folder.parent, ignore_errors=True)
    with suppress(UsageError):
        _run(top, "worktree", "prune")
        _run(top, "submodule", "--quiet", "foreach", "--recursive", "git worktree prune")


def _asked(folder: Path, *words: str) -> str:
    """Return what git writes, without the last newline; empty if it fails."""
    try:
        return _run(folder, *words).strip()
    except UsageError:
        return ""


def _run(folder: Path, *words: str, apart: Mapping[str, str] | None = None) -> str:
    """Return what git writes.

    Args:
        folder: where it runs.
        words: of the command.
        apart: variables of its environment, besides those of this process.

    Raises:
        UsageError: it fails.
    """
    inherited = {name: text for name, text in os.environ.items() if name not in OF_HOOKS}
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env={**inherited, **(apart or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UsageError(f"git {' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout
