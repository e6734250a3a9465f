"""Outputs at paths of the user: tried without a trace, written to what is there."""

from __future__ import annotations

import errno
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grb_check.errors import UsageError
from grb_check.files import outputs
from grb_check.files.outputs import (
    check_output,
    is_stream,
    write_output,
    write_whole,
)

NEW = b"new \xf0\x9f\x8d\x8f\n" * 20_000  # more than a pipe holds
# What the standard library of Windows lacks.
UNIX_ONLY = ("fchmod", "fchown", "geteuid", "mkfifo", "set_blocking", "O_NOCTTY", "O_NONBLOCK")


def _new(folder: Path) -> Path:
    return folder / "new.json"


def _in_new_folders(folder: Path) -> Path:
    return folder / "a" / "b" / "new.json"


def _regular(folder: Path) -> Path:
    (folder / "old.json").write_bytes(b"old")
    return folder / "old.json"


def _link(folder: Path) -> Path:
    _regular(folder)
    (folder / "link").symlink_to("old.json")
    (folder / "links.json").symlink_to(folder / "link")
    return folder / "links.json"


def _dangling(folder: Path) -> Path:
    (folder / "dangling.json").symlink_to("c/made.json")
    return folder / "dangling.json"


def _in_linked_folder(folder: Path) -> Path:
    (folder / "real").mkdir()
    (folder / "linked").symlink_to("real")
    return folder / "linked" / "new.json"


REPLACED = (_new, _in_new_folders, _regular, _link, _dangling, _in_linked_folder)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without what only Unix has."""
    monkeypatch.setattr(sys, "platform", "win32")
    for name in UNIX_ONLY:
        monkeypatch.delattr(os, name)


def snapshot(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Everything below a directory: kind and permissions, size, and the target of a link."""
    return {
        str(path): (
            path.lstat().st_mode,
            path.lstat().st_size,
            os.readlink(path) if path.is_symlink() else "",
        )
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("target", REPLACED)
def test_files_are_replaced_behind_links(tmp_path: Path, target: Callable[[Path], Path]) -> None:
    """Links stay, the file that they lead to has the content, and nothing else lies there."""
    path = target(tmp_path)
    links = {link: os.readlink(link) for link in tmp_path.rglob("*") if link.is_symlink()}
    write_output(path, NEW)
    assert path.read_bytes() == NEW
    assert {link: os.readlink(link) for link in links} == links
    files = [file for file in tmp_path.rglob("*") if file.is_file() and not file.is_symlink()]
    assert [file.read_bytes() for file in files] == [NEW]
    assert not is_stream(path)


def test_a_file_that_is_mounted_by_itself_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system does not let it be replaced."""
    path = _regular(tmp_path)

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(outputs.os, "replace", busy)
    write_output(path, NEW)
    assert path.read_bytes() == NEW
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("directory", "it is not a file, a character device or a pipe"),
        ("socket", "it is not a file, a character device or a pipe"),
        ("file/report.json", "Not a directory"),
        ("circle", ""),
        ("x" * 300, "File name too long"),
        (f"new/{'x' * 300}/report.json", "File name too long"),
        ("x" * 5000, "File name too long"),
        ("a\0b", "ValueError: "),
        ("/dev/fd/9999", "Bad file descriptor"),
    ],
)
def test_paths_that_cannot_be_written_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    """With the reason, and nothing is made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("socket")
    before = snapshot(tmp_path)
    expected = f"--grb-json {name!r} cannot be written: {why}"
    with pytest.raises(UsageError, match=f"^{re.escape(expected)}"):
        check_output("--grb-json", Path(name))
    assert snapshot(tmp_path) == before


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("target", [_new, _in_new_folders, _regular])
def test_files_are_written_on_windows(tmp_path: Path, target: Callable[[Path], Path]) -> None:
    """Without what only Unix has."""
    path = target(tmp_path)
    check_output("--grb-json", path)
    write_output(path, NEW)
    assert path.read_bytes() == NEW


@pytest.mark.usefixtures("windows")
def test_a_device_is_written_to_on_windows() -> None:
    """As NUL, which has another name here."""
    check_output("--grb-json", Path(os.devnull))
    write_output(Path(os.devnull), NEW)
    assert Path(os.devnull).is_char_device()


def test_a_drive_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere, the root of a path always exists."""
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(UsageError, match="cannot be written: there is no drive /; give"):
        check_output("--grb-json", Path("/no/report.json"))


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

    monkeypatch.setattr(outputs.os, "fsync", full)
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
