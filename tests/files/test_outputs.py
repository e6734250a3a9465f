"""Outputs at paths of the user: tried without a trace, written to what is there."""

from __future__ import annotations

import errno
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.errors import UsageError
from grb_check.files import whole
from grb_check.files.outputs import (
    check_folder,
    check_output,
    is_stream,
    named_output,
    try_write,
    write_output,
)
from grb_check.files.whole import shown

NEW = b"new \xf0\x9f\x8d\x8f\n" * 20_000  # more than a pipe holds
# What the standard library of Windows lacks.
UNIX_ONLY = ("fchmod", "fchown", "geteuid", "mkfifo", "set_blocking", "O_NOCTTY", "O_NONBLOCK")
needs_full = pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")


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


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


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


@pytest.mark.parametrize("target", [*REPLACED, _pipe])
def test_a_check_leaves_everything_as_it_is(tmp_path: Path, target: Callable[[Path], Path]) -> None:
    """No directory is made, nothing is truncated, and a pipe without a reader is not waited for."""
    path = target(tmp_path)
    before = snapshot(tmp_path)
    check_output("--grb-json", path)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("target", REPLACED)
def test_files_are_replaced_behind_links(tmp_path: Path, target: Callable[[Path], Path]) -> None:
    """Links stay, the file that they lead to has the content, and nothing else lies there."""
    path = target(tmp_path)
    links = {each: os.readlink(each) for each in tmp_path.rglob("*") if each.is_symlink()}
    write_output(path, NEW)
    assert path.read_bytes() == NEW
    assert {each: os.readlink(each) for each in links} == links
    files = [each for each in tmp_path.rglob("*") if each.is_file() and not each.is_symlink()]
    assert [each.read_bytes() for each in files] == [NEW]
    assert not is_stream(path)


def test_what_an_open_file_has_already_is_kept(tmp_path: Path) -> None:
    """As of a redirected standard output; later writes follow. A link may lead there."""
    link = tmp_path / "link"
    with (tmp_path / "opened.txt").open("wb", buffering=0) as stream:
        stream.write(b"before ")
        link.symlink_to(f"/dev/fd/{stream.fileno()}")
        for path in (Path(os.readlink(link)), link):
            assert is_stream(path)
            before = snapshot(tmp_path)
            check_output("--grb-json", path)
            assert snapshot(tmp_path) == before
            write_output(path, NEW)
        stream.write(b" after")
    assert (tmp_path / "opened.txt").read_bytes() == b"before " + NEW + NEW + b" after"


def test_a_pipe_gets_the_whole_content(tmp_path: Path) -> None:
    """The check does not open it, at which its reader would take the closing for the end."""
    path = _pipe(tmp_path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    check_output("--grb-json", path)
    events = select.poll()
    events.register(reader, select.POLLIN)
    assert events.poll(0) == []  # POLLHUP after a writer was there
    writer = threading.Thread(target=write_output, args=(path, NEW))
    writer.start()
    events.poll()
    os.set_blocking(reader, True)
    with open(reader, "rb") as stream:
        assert stream.read() == NEW
    writer.join()
    assert path.is_fifo()


@needs_full
def test_a_device_stays_a_device() -> None:
    """Whether it takes the content or not."""
    write_output(Path("/dev/null"), NEW)
    with pytest.raises(OSError, match="No space left"):
        write_output(Path("/dev/full"), NEW)
    assert Path("/dev/null").is_char_device()
    assert Path("/dev/full").is_char_device()
    assert is_stream(Path("/dev/null"))


def test_standard_output_has_all_in_its_order(tmp_path: Path) -> None:
    """Redirected to a file, what Python still held back comes first."""
    code = (
        "from pathlib import Path; from grb_check.files.outputs import *; print('before');"
        "write_output(Path('/dev/stdout'), b'report '); print('after')"
    )
    with (tmp_path / "out.txt").open("wb") as stream:
        stream.write(b"first ")
        stream.flush()
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert (tmp_path / "out.txt").read_text() == "first before\nreport after\n"


def test_an_open_file_of_another_process_is_added_to(tmp_path: Path) -> None:
    """As the standard output of a container's first process."""
    with (tmp_path / "log.txt").open("w") as log:
        log.write("before ")
        log.flush()
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, stdout=log)
        path = Path(f"/proc/{process.pid}/fd/1")
        check_output("--grb-json", path)
        write_output(path, b"report")
        process.communicate(b"\n")
    assert (tmp_path / "log.txt").read_text() == "before report"


def test_a_file_that_is_mounted_by_itself_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system does not let it be replaced."""
    path = _regular(tmp_path)

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(whole.os, "replace", busy)
    write_output(path, NEW)
    assert path.read_bytes() == NEW
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("directory", "it is not a file, a character device or a pipe"),
        ("socket", "it is not a file, a character device or a pipe"),
        ("file/report.json", "Not a directory"),
        ("circle", "Too many levels of symbolic links"),
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
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
    before = snapshot(tmp_path)
    expected = f"--grb-json {name!r} cannot be written: {why}"
    with pytest.raises(UsageError, match=f"^{re.escape(expected)}"):
        check_output("--grb-json", Path(name))
    assert snapshot(tmp_path) == before


def test_a_descriptor_that_is_open_for_reading_is_refused(tmp_path: Path) -> None:
    """As the standard input."""
    with _regular(tmp_path).open() as stream, pytest.raises(UsageError, match="Bad file desc"):
        check_output("--grb-json", Path(f"/dev/fd/{stream.fileno()}"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_what_the_user_may_not_write_is_refused(tmp_path: Path) -> None:
    """A file, a pipe, and a new file in a directory, also if it would be in a new one."""
    (tmp_path / "closed").mkdir(mode=0o500)
    for path in (_regular(tmp_path), _pipe(tmp_path)):
        path.chmod(0o400)
    for name in ("old.json", "pipe", "closed/a.json", "closed/b/a.json"):
        with pytest.raises(UsageError, match="Permission denied"):
            check_output("--grb-json", tmp_path / name)
    with pytest.raises(UsageError, match=r"--store .*Permission denied"):
        check_folder("--store", tmp_path / "closed")


def test_a_folder_is_checked_and_not_made(tmp_path: Path) -> None:
    """It must be a directory, or one that could be made."""
    _regular(tmp_path)
    before = snapshot(tmp_path)
    check_folder("--store", tmp_path)
    check_folder("--store", tmp_path / "a" / "b")
    with pytest.raises(UsageError, match=r"--store .*old\.json' cannot be written to: Not a dir"):
        check_folder("--store", tmp_path / "old.json")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("text", ["", " ", "-"])
def test_texts_that_name_no_file_are_refused(text: str) -> None:
    """The message says how the standard output is written."""
    with pytest.raises(UsageError, match=rf"^--html '{text}' does not name a file.*/dev/stdout"):
        named_output("--html", text)
    assert named_output("--html", "./-") == "./-"


def test_a_text_that_cannot_be_made_or_encoded_is_one_line(tmp_path: Path) -> None:
    """And the file is as it was."""
    path = _regular(tmp_path)

    def broken() -> str:
        raise KeyError("two\nlines")

    assert try_write(path, broken) == f"{shown(path)} not written: KeyError: 'two\\nlines'"
    assert try_write(path, lambda: "\ud800").startswith(f"{shown(path)} not written: UnicodeEnc")
    assert path.read_bytes() == b"old"
    assert "\n" not in try_write(tmp_path / "two\nlines", broken)
    assert try_write(path, lambda: "new") == ""
    assert path.read_bytes() == b"new"


@needs_full
def test_a_pipe_without_a_reader_is_one_line(tmp_path: Path) -> None:
    """It is not waited for; and neither is a full device more than a line."""
    path = _pipe(tmp_path)
    assert try_write(path, str) == f"{shown(path)} not written: no process reads from it"
    full = "/dev/full not written: No space left on device"
    assert try_write(Path("/dev/full"), lambda: "text") == full


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


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("text", ["-", "/dev/stdout"])
def test_no_path_is_the_standard_output_on_windows(text: str) -> None:
    """`/dev/stdout` would be a new file, in a new directory of the current drive."""
    with pytest.raises(UsageError, match=rf"^--html '{text}' does not name a file; give a path$"):
        named_output("--html", text)


def test_a_drive_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere, the root of a path always exists."""
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(UsageError, match="cannot be written: there is no drive /; give"):
        check_output("--grb-json", Path("/no/report.json"))


def test_descriptors_are_devices_on_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, /dev/fd/N is no link, and its status is that of the file that is open."""
    real, is_symlink = os.path.realpath, Path.is_symlink
    monkeypatch.setattr(
        os.path, "realpath", lambda path: str(path) if str(path) == "/dev/fd" else real(path)
    )
    monkeypatch.setattr(
        Path, "is_symlink", lambda path: str(path.parent) != "/dev/fd" and is_symlink(path)
    )
    with (tmp_path / "opened.txt").open("wb", buffering=0) as stream:
        stream.write(b"before ")
        path = Path(f"/dev/fd/{stream.fileno()}")
        check_output("--grb-json", path)
        assert is_stream(path)
        write_output(path, b"report")
    assert (tmp_path / "opened.txt").read_bytes() == b"before report"


_NAMES = st.sampled_from(["a", "b", "..", ".", "new", "file", "link", "dangling"])


@given(parts=st.lists(_NAMES, min_size=1, max_size=5))
def test_what_a_check_accepts_can_be_written(parts: list[str]) -> None:
    """Whatever the path leads through; what it refuses is as it was, and no link is replaced."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "1", "2", "3", "4", "5")  # as many as `..` can leave
        (folder / "a").mkdir(parents=True)
        (folder / "file").write_bytes(b"old")
        (folder / "link").symlink_to("a")
        (folder / "dangling").symlink_to("a/c/d")
        before, path = snapshot(Path(name)), folder.joinpath(*parts)
        try:
            check_output("--grb-json", path)
        except UsageError:
            assert snapshot(Path(name)) == before
            return
        assert snapshot(Path(name)) == before
        write_output(path, NEW)
        after = snapshot(Path(name))
        assert all(after[each] == found for each, found in before.items() if found[2])
        files = [each for each in Path(name).rglob("*") if not each.is_symlink() and each.is_file()]
        assert [each.read_bytes() for each in files].count(NEW) == 1
