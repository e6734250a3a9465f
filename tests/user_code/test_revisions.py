"""What git knows of the user's repository, and copies of its revisions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from grb_check.errors import UsageError
from grb_check.user_code.revisions import (
    PREFIX,
    find_revision,
    not_of,
    remove_stale,
    working_digest,
    worktree,
)

Git = Callable[..., str]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "own"
    top.mkdir()
    git(top, "init", "--quiet", "--initial-branch=main")
    git(top, "config", "user.email", "a@example.org")
    git(top, "config", "user.name", "A")
    (top / "model.py").write_text("width = 64\n")
    (top / ".gitignore").write_text("ignored.py\n")
    commit(top, "first")
    return top


def git(top: Path, *words: str) -> str:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *words], cwd=top, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(top: Path, message: str) -> None:
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message", message)


def found(top: Path, name: str) -> str:
    return find_revision(name, top, "--grb-base").commit


def test_every_name_of_a_commit_is_understood(repository: Path) -> None:
    """Three dots are the merge base with HEAD, or of the two that stand beside them."""
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v1")
    git(repository, "checkout", "--quiet", "-b", "change")
    (repository / "model.py").write_text("width = 32\n")
    commit(repository, "second")
    assert found(repository, "v1") == found(repository, "main") == found(repository, "HEAD~1")
    assert found(repository, "main...") == found(repository, "main...change") == first
    assert found(repository, "change") != first
    below = repository / "below"
    below.mkdir()
    assert find_revision("main", below, "--grb-base").top == repository


@pytest.mark.parametrize("name", ["absent", "--help", "absent...", "HEAD~7", ""])
def test_what_is_no_revision_is_refused(repository: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"--grb-base={name}"):
        found(repository, name)


@pytest.mark.parametrize("name", ["main:model.py", "main^{tree}"])
def test_a_file_or_a_tree_is_no_commit(repository: Path, name: str) -> None:
    with pytest.raises(UsageError, match="it is no commit; give"):
        found(repository, name)


def test_a_shallow_clone_is_told_how_to_get_the_history(repository: Path, tmp_path: Path) -> None:
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "second")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", "shallow")
    for name in ("HEAD~1", git(repository, "rev-parse", "HEAD~1")):
        with pytest.raises(UsageError, match="git fetch --unshallow"):
            found(tmp_path / "shallow", name)
    with pytest.raises(UsageError, match="no such revision"):
        found(repository, 40 * "1")
    git(tmp_path, "clone", "--quiet", str(repository), "whole")
    with pytest.raises(UsageError, match="git fetch origin new"):
        found(tmp_path / "whole", "origin/new")


def test_a_folder_without_a_repository_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="not a git repository"):
        found(tmp_path, "main")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="git, which is not installed"):
        found(tmp_path, "main")


def test_the_digest_is_of_all_files_but_texts(repository: Path) -> None:
    """Also of those that git was not told of; nothing of the repository is touched."""
    base = find_revision("main", repository, "--grb-base").digest
    status = git(repository, "status", "--porcelain")
    assert working_digest(repository) == base
    (repository / "__pycache__").mkdir()
    for name in ("README.md", "ignored.py", "__pycache__/model.pyc"):
        (repository / name).write_text("anything\n")
        assert working_digest(repository) == base
    for change in ("new.py", "model.py"):
        (repository / change).write_text("width = 16\n")
        assert working_digest(repository) != base
        (repository / "new.py").unlink(missing_ok=True)
    (repository / "model.py").write_text("width = 64\n")
    (repository / "README.md").unlink()
    (repository / "__pycache__" / "model.pyc").unlink()
    assert working_digest(repository) == base
    assert git(repository, "status", "--porcelain") == status


def test_a_change_in_the_second_of_the_commit_is_seen(repository: Path) -> None:
    """Of equal size, so that git tells it by the times of the file and of the index alone."""
    git(repository, "config", "core.trustctime", "false")
    second = (1_700_000_000, 1_700_000_000)
    file, index = repository / "model.py", repository / ".git" / "index"
    os.utime(file, second)
    git(repository, "update-index", "--refresh")
    os.utime(index, second)
    base = find_revision("main", repository, "--grb-base").digest
    file.write_text("width = 16\n")
    os.utime(file, second)
    assert working_digest(repository) != base


def test_a_copy_has_the_files_of_the_revision_and_is_removed(repository: Path) -> None:
    revision = find_revision("main", repository, "--grb-base")
    (repository / "model.py").write_text("width = 16\n")
    with worktree(revision) as folder:
        assert (folder / "model.py").read_text() == "width = 64\n"
        assert folder.name == repository.name
    assert not folder.parent.exists()
    assert git(repository, "worktree", "list").count("\n") == 0
    assert (repository / "model.py").read_text() == "width = 16\n"


def test_copies_of_processes_that_were_killed_are_removed(repository: Path, tmp_path: Path) -> None:
    """Those of processes that are alive stay, and worktrees of the user."""
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    stale = tmp_path / f"{PREFIX}{ended}-x" / "own"
    alive = tmp_path / f"{PREFIX}{os.getppid()}-x" / "own"
    users = tmp_path / "users"
    for path in (stale, alive, users):
        git(repository, "worktree", "add", "--quiet", "--detach", str(path))
    remove_stale(repository)
    assert not stale.parent.exists()
    assert alive.exists()
    assert users.exists()
    assert git(repository, "worktree", "list").count("\n") == 2


def test_submodules_are_copied_and_their_changes_count(repository: Path, tmp_path: Path) -> None:
    """A change in one that is not committed is none of the tree's."""
    library = tmp_path / "library"
    git(tmp_path, "init", "--quiet", "library")
    git(library, "config", "user.email", "a@example.org")
    git(library, "config", "user.name", "A")
    (library / "layers.py").write_text("depth = 2\n")
    commit(library, "first")
    git(
        repository,
        *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib"),
    )
    commit(repository, "with a submodule")
    revision = find_revision("HEAD", repository, "--grb-base")
    assert working_digest(repository) == revision.digest
    (repository / "lib" / "layers.py").write_text("depth = 3\n")
    assert working_digest(repository) != revision.digest
    with worktree(revision) as folder:
        assert (folder / "lib" / "layers.py").read_text() == "depth = 2\n"


def test_an_installed_module_is_known_by_its_name(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is imported from the top or from `src`; a folder `torch` elsewhere is another thing."""
    for file in ("packages/a/src/deep/layers.py", "tests/torch/__init__.py", "single.py"):
        (repository / file).parent.mkdir(parents=True, exist_ok=True)
        (repository / file).touch()
    commit(repository, "more")
    assert not_of(repository, repository) == []
    for name in ("deep.layers", "single"):
        module = ModuleType(name)
        module.__file__ = str(tmp_path / f"{name}.py")
        monkeypatch.setitem(sys.modules, name, module)
    expected = [str(tmp_path / f"{name}.py") for name in ("deep.layers", "single")]
    assert not_of(repository, repository) == expected
