"""The commit of a working tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grb_check.files.commit import VARIABLES, Commit, commit_of


def git(folder: Path, *arguments: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = ["git", "-C", str(folder), *names, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(autouse=True)
def _outside_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A working tree with one commit of two files."""
    git(tmp_path, "init", "-q")
    (tmp_path / "model.py").write_text("1\n")
    (tmp_path / "kept [1].jsonl").write_text("1\n")
    (tmp_path / "sub").mkdir()
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_git_tells_the_commit(tree: Path) -> None:
    """From a directory below as well; files that git does not track change nothing."""
    head = git(tree, "rev-parse", "HEAD")
    (tree / "new.txt").touch()
    assert commit_of(tree / "sub") == Commit(head, dirty=False)


def test_a_changed_file_makes_it_dirty(tree: Path) -> None:
    """Whether it is staged or not, and wherever it is."""
    (tree / "model.py").write_text("2\n")
    assert commit_of(tree / "sub").dirty
    git(tree, "add", ".")
    assert commit_of(tree / "sub").dirty


def test_the_history_itself_may_change(tree: Path) -> None:
    """A run appends to it; a path outside of the working tree is no error."""
    own = tree / "kept [1].jsonl"
    own.write_text("2\n")
    assert not commit_of(tree, own).dirty
    assert commit_of(tree).dirty
    assert commit_of(tree, tree.parent / "else.jsonl").dirty


@pytest.mark.parametrize("name", VARIABLES)
def test_ci_names_the_commit(tree: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A variable that is no hash is ignored."""
    monkeypatch.setenv(name, "ab" * 20)
    assert commit_of(tree) == Commit("ab" * 20, dirty=False)
    monkeypatch.setenv(name, "$(rm)")
    assert commit_of(tree).hash == git(tree, "rev-parse", "HEAD")


def test_outside_a_repository_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor before its first commit, nor without git."""
    none = Commit("", dirty=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "in").mkdir()
    assert commit_of(tmp_path / "in") == none
    git(tmp_path / "in", "init", "-q")
    assert commit_of(tmp_path / "in") == none
    monkeypatch.setenv("PATH", "")
    assert commit_of(tmp_path / "in") == none
