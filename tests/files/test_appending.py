"""Lines that several processes append to one file."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path

import pytest

from grb_check.files import appending
from grb_check.files.appending import append_line


def test_the_file_and_its_directories_are_made(tmp_path: Path) -> None:
    """And later lines come after the first."""
    path = tmp_path / "a" / "b.jsonl"
    append_line(path, b"1")
    append_line(path, b"2")
    assert path.read_bytes() == b"1\n2\n"


def test_a_line_without_its_end_does_not_run_into_the_next(tmp_path: Path) -> None:
    """As a process leaves one that is killed, or a disk that is full."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'1\n{"cut": ')
    append_line(path, b"2")
    assert path.read_bytes() == b'1\n{"cut": \n2\n'


def _append_many(path: Path, own: bytes) -> None:
    for _ in range(40):
        append_line(path, own * 5000)


def test_lines_of_processes_stay_whole(tmp_path: Path) -> None:
    """Each is there once, longer than a page of memory."""
    path, names = tmp_path / "a.jsonl", [b"a", b"b", b"c", b"d"]
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_append_many, args=(path, name)) for name in names]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    assert [each.exitcode for each in processes] == [0] * 4
    lines = [line for line in path.read_bytes().splitlines() if line]  # a blank one does no harm
    assert sorted(lines) == sorted(name * 5000 for name in names for _ in range(40))


def test_a_link_leads_to_the_file(tmp_path: Path) -> None:
    """It stays a link."""
    (tmp_path / "kept.jsonl").write_bytes(b"1\n")
    (tmp_path / "link.jsonl").symlink_to("kept.jsonl")
    append_line(tmp_path / "link.jsonl", b"2")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "kept.jsonl").read_bytes() == b"1\n2\n"


def test_a_write_that_is_cut_short_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports a full disk only when not even one byte fits."""
    write = os.write
    monkeypatch.setattr(appending.os, "write", lambda opened, text: write(opened, text[:3]))
    with pytest.raises(OSError, match="space") as caught:
        append_line(tmp_path / "a.jsonl", b"12345")
    assert caught.value.errno == errno.ENOSPC
