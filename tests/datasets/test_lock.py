"""The lock file compares datasets with their first use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.datasets import lock
from grb_check.errors import DataError


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / "data" / name for name in ("a.npz", "b.npz")}
    (tmp_path / "data").mkdir()
    for name, path in paths.items():
        path.write_text(f"content of {name}")
    return paths


def use(files: dict[str, Path], home: Path, key: str = "grb-cora") -> None:
    stamps = lock.compare(key, files, home, where="here", accept="run: python -m grb_check lock it")
    if lock.recorded(key, home) is None:
        lock.record(key, stamps, home, origin="a test")


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_any_change_of_a_byte_is_found(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One flipped bit, one byte more or less: the message names file, expected and found."""
    folder = tmp_path_factory.mktemp("lock")
    path = folder / "x.npz"
    content = bytearray(data.draw(st.binary(min_size=1, max_size=40)))
    path.write_bytes(content)
    use({"x.npz": path}, folder)
    change = data.draw(st.sampled_from(["flip", "append", "cut"]))
    if change == "flip":
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes({"append": content + b"x", "cut": content[:-1]}.get(change, content))
    with pytest.raises(DataError, match=r"x\.npz: expected sha256 .*, found sha256"):
        use({"x.npz": path}, folder)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": 2, "datasets": {}}',
        '{"format": 1, "datasets": []}',
        '{"format": 1, "datasets": {"a": {"files": {"x": {"sha256": "", "size": "many"}}}}}',
        "\x00",
    ],
)
def test_a_damaged_lock_file_is_named(content: str, files: dict[str, Path], tmp_path: Path) -> None:
    """It is never taken for an empty one, which would accept everything."""
    (tmp_path / lock.LOCK_FILE).write_text(content)
    with pytest.raises(DataError, match=r"grb_check\.lock\.json.*delete"):
        use(files, tmp_path)


def test_an_unreadable_file_is_a_data_error(tmp_path: Path) -> None:
    """The message names a directory in the place of a file."""
    with pytest.raises(DataError, match="cannot be read"):
        lock.compare("x", {"a": tmp_path}, tmp_path, where="here", accept="")
