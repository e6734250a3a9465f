"""The lock file compares datasets with their first use."""

from __future__ import annotations

import json
import multiprocessing
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutants import byte_mutants, structural_mutants

from grb_check.datasets import lock
from grb_check.errors import DataError
from grb_check.files.writing import UnwritableError


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


def test_first_use_is_recorded_and_the_second_agrees(
    files: dict[str, Path], tmp_path: Path
) -> None:
    """The record has SHA-256 and size of each file, and where they came from."""
    use(files, tmp_path)
    use(files, tmp_path)
    content = json.loads((tmp_path / lock.LOCK_FILE).read_text())
    entry = content["datasets"]["grb-cora"]
    assert entry["origin"] == "a test"
    assert entry["files"]["a.npz"] == {
        # printf 'content of a.npz' | sha256sum
        "sha256": "b7ddf375f537b4a1cf4a2c560ac21be54853693743cb41f40b8abf00afa4328d",
        "size": 16,
    }


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


def test_missing_and_additional_files_are_found(files: dict[str, Path], tmp_path: Path) -> None:
    """A dataset is all of its files."""
    use(files, tmp_path)
    with pytest.raises(DataError, match=r"b\.npz: expected sha256 .*, found no file"):
        use({"a.npz": files["a.npz"]}, tmp_path)
    with pytest.raises(DataError, match=r"^here: .* c: expected no file, found sha256"):
        use({**files, "c": files["a.npz"]}, tmp_path)


def test_a_change_is_accepted_by_a_new_record(files: dict[str, Path], tmp_path: Path) -> None:
    """The message says how; other records stay."""
    use(files, tmp_path)
    use(files, tmp_path, "other")
    files["a.npz"].write_text("new")
    with pytest.raises(DataError, match="is intended, run: python -m grb_check lock it"):
        use(files, tmp_path)
    stamps = {name: lock.stamp(path) for name, path in files.items()}
    lock.record("grb-cora", stamps, tmp_path, origin="a test")
    use(files, tmp_path)
    assert lock.recorded("other", tmp_path) is not None


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


def test_a_byte_order_mark_of_utf_8_is_skipped(files: dict[str, Path], tmp_path: Path) -> None:
    """As some editors write it; a file in UTF-16 is refused by name."""
    use(files, tmp_path)
    path = tmp_path / lock.LOCK_FILE
    text = path.read_text()
    path.write_text(text, encoding="utf-8-sig")
    use(files, tmp_path)
    path.write_text(text, encoding="utf-16")
    with pytest.raises(DataError, match="it is UTF-16 or UTF-32; save it as UTF-8"):
        use(files, tmp_path)


def test_a_damaged_record_is_refused_or_compares(
    files: dict[str, Path], tmp_path: Path, how_many: int
) -> None:
    """No file is used whose stamp is not that of the record; the lock file has no digest itself."""
    use(files, tmp_path)
    path = tmp_path / lock.LOCK_FILE
    raw = path.read_bytes()
    stamps = lock.recorded("grb-cora", tmp_path)
    messages = []
    changed = structural_mutants(json.loads(raw), how_many, 0, lock._LockFile)
    for mutant in chain(changed, byte_mutants(raw, how_many, 0)):
        path.write_bytes(mutant)
        try:
            use(files, tmp_path)
        except DataError as error:
            messages.append(str(error))
        else:
            assert lock.recorded("grb-cora", tmp_path) == stamps
    assert len(messages) > how_many
    assert all(str(path) in each and "\n" not in each for each in messages)


def test_a_home_that_cannot_be_written_is_named(files: dict[str, Path], tmp_path: Path) -> None:
    """A caller that asks for a record is told that it was not written."""
    home = tmp_path / "file"
    home.touch()
    with pytest.raises(UnwritableError, match=r"file/grb_check\.lock\.json: cannot be written"):
        lock.record("x", {}, home, origin="")


def test_an_unreadable_file_is_a_data_error(tmp_path: Path) -> None:
    """The message names a directory in the place of a file."""
    with pytest.raises(DataError, match="cannot be read"):
        lock.compare("x", {"a": tmp_path}, tmp_path, where="here", accept="")


def record_many(home: Path, worker: int) -> None:
    for number in range(10):
        lock.record(f"{worker}-{number}", {}, home, origin="")


def test_records_of_several_processes_are_all_kept(tmp_path: Path) -> None:
    """No process overwrites the record of another."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=record_many, args=(tmp_path, each)) for each in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    names = [f"{worker}-{number}" for worker in range(2) for number in range(10)]
    assert [name for name in names if lock.recorded(name, tmp_path) is None] == []
