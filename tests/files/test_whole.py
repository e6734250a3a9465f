"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from grb_check.files import outputs
from grb_check.files.outputs import write_whole


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
