"""Untrusted archives: files are extracted, or refused without damage."""

from __future__ import annotations

import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from bad_server import zipped
from hypothesis import given, settings
from hypothesis import strategies as st

from grb_check.datasets.download.archives import ArchiveLimits, extract
from grb_check.errors import DataError
from grb_check.files.outputs import UnwritableError

FILES = ("adj.npz", "features.npz", "split/time/train.csv.gz")
CONTENT = {file: f"content of {file} ".encode() * 50 for file in FILES}
NAME = "grb-cora"
ROOMY = ArchiveLimits()
Member = tuple[str, bytes]


def below(folder: str, content: Mapping[str, bytes] = CONTENT) -> dict[str, bytes]:
    return {f"{folder}{file}": data for file, data in content.items()}


def zip_of(members: Iterable[Member], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for path, content in members:
            archive.writestr(zipfile.ZipInfo(path), content, method)
    return buffer.getvalue()


def tar_of(members: Iterable[Member], packer: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{packer}") as archive:
        for path, content in members:
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


PACKERS: dict[str, Callable[[Iterable[Member]], bytes]] = {
    "zip": zip_of,
    "stored": lambda members: zip_of(members, zipfile.ZIP_STORED),
    "tar": tar_of,
    "gz": lambda members: tar_of(members, "gz"),
    "bz2": lambda members: tar_of(members, "bz2"),
    "xz": lambda members: tar_of(members, "xz"),
}


def unpacked(archive: bytes, limits: ArchiveLimits = ROOMY) -> dict[str, bytes]:
    """Extract an archive, and check that nothing else was written."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        path, into = root / "archive", root / "a" / "b" / "into"
        into.mkdir(parents=True)
        path.write_bytes(archive)
        try:
            extract(path, NAME, FILES, into, limits)
        finally:
            assert {path, into, into.parent, into.parent.parent} == {
                item for item in root.rglob("*") if into not in item.parents
            }
        return {
            item.relative_to(into).as_posix(): item.read_bytes()
            for item in into.rglob("*")
            if not item.is_dir()
        }


def refusal(archive: bytes, limits: ArchiveLimits = ROOMY) -> str:
    with pytest.raises(DataError) as caught:
        unpacked(archive, limits)
    assert "\n" not in str(caught.value)
    assert "/archive: " in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("folders", [("a/", "b/"), (f"a/{NAME}/", f"b/{NAME}/")])
def test_two_folders_that_fit_equally_are_refused(folders: tuple[str, str]) -> None:
    """Taking either would be a guess."""
    assert f"none or several are called {NAME}" in refusal(
        zipped({**below(folders[0]), **below(folders[1])})
    )


def test_only_one_level_of_archives_is_opened() -> None:
    """An archive in an archive in the archive does not count."""
    twice = zipped({f"{NAME}.zip": zipped({f"{NAME}.zip": zipped(below(""))})})
    assert "no directory in it has all of adj.npz, features.npz" in refusal(twice)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", PACKERS)
def test_a_file_that_is_there_twice_is_refused(kind: str) -> None:
    """Readers differ in which they take."""
    members = [*below("x/").items(), ("./x/adj.npz", b"another")]
    assert "it has adj.npz 2 times" in refusal(PACKERS[kind](members))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
)
def test_links_and_devices_of_a_tar_do_not_count(kind: bytes) -> None:
    """A link to a file outside, under the name of a wanted one, is as good as nothing."""
    buffer = io.BytesIO(tar_of(list(CONTENT.items())[1:]))
    with tarfile.open(fileobj=buffer, mode="a:") as archive:
        info = tarfile.TarInfo("adj.npz")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    assert "no directory in it has all of" in refusal(buffer.getvalue())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no zip or tar archive"),
        (b"<!doctype html><html>", "no zip or tar archive"),
        (b"PK\x03\x04", "or a damaged one"),
        (b"\x1f\x8b garbage", "or a damaged one"),
        (zipped({}), "no directory in it has all of"),
        (tar_of([("a", b"")]), "no directory in it has all of"),
        (zip_of(CONTENT.items(), zipfile.ZIP_LZMA), "compressed with method 14; a zip may use"),
    ],
)
def test_what_is_wrong_is_said(content: bytes, said: str) -> None:
    """In one line that names the archive."""
    assert said in refusal(content)


def test_an_encrypted_member_is_named() -> None:
    """The flag is in the central directory, where reading begins."""
    archive = bytearray(zipped(CONTENT))
    entry = archive.index(b"PK\x01\x02")
    archive[entry + 8] |= 1
    said = refusal(bytes(archive))
    assert "'adj.npz'" in said
    assert "is encrypted" in said


@pytest.mark.parametrize("kind", PACKERS)
def test_bombs_stop_at_the_limit(kind: str) -> None:
    """Long before they would fill the disk; content of exactly the limit is accepted."""
    bomb = PACKERS[kind]({**below("x/"), "x/adj.npz": bytes(1 << 22)}.items())
    assert "more than 1,000,000 unpacked bytes" in refusal(
        bomb, ArchiveLimits(total_bytes=1_000_000)
    )
    assert len(unpacked(bomb)["adj.npz"]) == 1 << 22


@pytest.mark.parametrize("kind", PACKERS)
def test_too_many_members_are_refused(kind: str) -> None:
    """Counting stops at the limit."""
    archive = PACKERS[kind]([*CONTENT.items(), *((f"{n}", b"") for n in range(20))])
    assert "more than 22 members" in refusal(archive, ArchiveLimits(members=22))
    assert unpacked(archive, ArchiveLimits(members=23)) == CONTENT


def test_an_unwritable_directory_is_not_blamed_on_the_archive(tmp_path: Path) -> None:
    """The message names the file; one that is there already is not overwritten."""
    (tmp_path / "archive").write_bytes(zipped(CONTENT))
    (tmp_path / "features.npz").symlink_to(tmp_path / "victim")
    with pytest.raises(UnwritableError, match=r"features\.npz: cannot be written: File exists"):
        extract(tmp_path / "archive", NAME, FILES, tmp_path)
    assert not (tmp_path / "victim").exists()


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A `DataError` like the others."""
    with pytest.raises(DataError, match="absent: cannot be read: No such file"):
        extract(tmp_path / "absent", NAME, FILES, tmp_path)


names = st.lists(
    st.sampled_from(["..", ".", "", "a", NAME, "__MACOSX", "c:", "adj.npz", "features.npz", "é"]),
    min_size=1,
    max_size=5,
).map("/".join)
absolute = st.sampled_from(["", "/", "\\", "//host/share/"])
paths = st.builds(str.__add__, absolute, names).filter(lambda path: path.strip("/") != "")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@settings(deadline=None, max_examples=300)
@given(
    junk=st.lists(st.tuples(paths, st.binary(max_size=40)), max_size=8),
    place=st.integers(0, 8),
    kind=st.sampled_from(sorted(PACKERS)),
)
def test_no_path_of_an_archive_does_harm(junk: list[Member], place: int, kind: str) -> None:
    """A complete directory among anything else: its bytes or a refusal, nothing outside."""
    allowed = below(f"data/{NAME}/").items()
    archive = PACKERS[kind]([*junk[:place], *allowed, *junk[place:]])
    assert unpacked(archive) == CONTENT


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from([b"", b"PK\x03\x04", b"\x1f\x8b\x08\x00", b"BZh9", b"\xfd7zXZ\x00"]),
    st.binary(),
)
def test_any_bytes_are_refused(begin: bytes, rest: bytes) -> None:
    """With one kind of error."""
    refusal(begin + rest)
