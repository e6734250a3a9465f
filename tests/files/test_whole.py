"""Files appear whole or not at all; paths are checked before any work."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from grb_check.errors import UsageError
from grb_check.files import whole
from grb_check.files.whole import check_writable, shown, write_whole


def test_the_new_content_replaces_the_old_one(tmp_path: Path) -> None:
    """And nothing else lies beside the file."""
    path = tmp_path / "a.bin"
    write_whole(path, b"old")
    write_whole(path, b"new\n\0")
    assert path.read_bytes() == b"new\n\0"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full while the content is synced."""
    path = tmp_path / "a.bin"
    write_whole(path, b"old")

    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(whole.os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_directory_of_a_file_is_made(tmp_path: Path) -> None:
    """Checking makes the directories and not the file."""
    path = tmp_path / "a" / "b" / "report.json"
    check_writable("--grb-json", path)
    assert path.parent.is_dir()
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("directory", "--grb-json '{path}' cannot be written; give the path of a file"),
        ("file/report.json", "--grb-json '{path}': File exists; give the path of a file"),
        ("x" * 5000, "--grb-json '{path}': File name too long; give the path of a file"),
    ],
)
def test_paths_that_cannot_be_written_are_refused(tmp_path: Path, name: str, message: str) -> None:
    """A directory, a path below a file, and a name that no file can have."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("")
    path = tmp_path / name
    expected = message.format(path=path)
    with pytest.raises(UsageError, match=f"^{re.escape(expected)}"):
        check_writable("--grb-json", path)


def test_paths_below_the_working_directory_are_shown_relative_to_it(tmp_path: Path) -> None:
    """Others are shown as they are."""
    here = tmp_path / "project"
    assert shown(here / "a" / "b.json", here) == os.path.join("a", "b.json")
    assert shown(tmp_path / "b.json", here) == str(tmp_path / "b.json")
    assert shown(Path.cwd() / "b.json") == "b.json"
