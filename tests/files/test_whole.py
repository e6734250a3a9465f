"""Files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path, PureWindowsPath

import pytest

from grb_check.files import whole
from grb_check.files.whole import shown, write_whole


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


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    """Whatever the umask."""
    path = tmp_path / "a.bin"
    path.touch()
    path.chmod(mode)
    write_whole(path, b"new")
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
def test_root_leaves_a_file_to_its_owner(tmp_path: Path) -> None:
    """As in a container that runs as root on a user's folder."""
    path = tmp_path / "a.bin"
    path.touch()
    os.chown(path, 4321, 1234)
    write_whole(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (4321, 1234)


def test_a_name_may_have_the_greatest_length(tmp_path: Path) -> None:
    """The temporary file beside it has a short name."""
    path = tmp_path / ("a" * 255)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_paths_below_the_working_directory_are_shown_relative_to_it(tmp_path: Path) -> None:
    """Others are shown as they are."""
    here = tmp_path / "project"
    assert shown(here / "a" / "b.json", here) == os.path.join("a", "b.json")
    assert shown(tmp_path / "b.json", here) == str(tmp_path / "b.json")
    assert shown(Path.cwd() / "b.json") == "b.json"
    assert shown(PureWindowsPath("D:/b.json"), PureWindowsPath("C:/project")) == "D:\\b.json"
