"""Places of stores, as plain data."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from store_workers import KEY

from grb_check.errors import UsageError
from grb_check.store import place as place_module
from grb_check.store.place import StorePlace, is_url, open_store, place_of


def test_a_place_travels_and_opens_the_same_folder(tmp_path: Path) -> None:
    """Any process can open it; None stores nothing."""
    place = StorePlace(str(tmp_path / "kept"))
    assert pickle.loads(pickle.dumps(place)) == place
    open_store(place).save_text(KEY, "a")
    open_store(None).save_text(KEY, "b")
    assert open_store(place).load_text(KEY) == "a"
    assert open_store(None).load_text(KEY) is None


def test_a_place_that_is_only_read_stays_empty(tmp_path: Path) -> None:
    """Not even the folder is made."""
    store = open_store(StorePlace(str(tmp_path / "kept"), read_only=True))
    with store.lock(KEY):
        store.save_text(KEY, "a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it means the same in every working directory."""
    monkeypatch.chdir(tmp_path)
    assert place_of("kept", "store") == StorePlace(str(tmp_path / "kept"))
    assert place_of(Path("kept?mode=read"), "store").read_only
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert place_of("~/kept", "store") == StorePlace(str(tmp_path / "kept"))


@pytest.mark.parametrize("text", ["memory://runs", "s3://bucket/a/b/", "s3a://b/c"])
def test_a_url_is_kept_without_its_last_slash(text: str) -> None:
    """Its protocol is one of fsspec whose package is installed."""
    assert place_of(text, "store").location == text.rstrip("/")
    assert is_url(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x://bucket", "store: 'x' is not a protocol .* give a directory, or a URL such as s3://"),
        ("file:///tmp/x", "store: 'file' is not a protocol of fsspec for other machines"),
        ("s3://", "store 's3://' names no bucket; write s3://BUCKET/PREFIX"),
        ("s3:///", "store 's3:///' names no bucket"),
        ("s3://bucket/a b", "blank"),
        ("s3://bucket/a?versionId=1", r"store s3://\.\.\. has a password, another query"),
        ("s3://bucket/a#b", "another query"),
        ("zip://a::s3://b", "a second protocol"),
        ("s3://bucket/\x1b[31m", "has a password"),
    ],
)
def test_a_url_that_is_no_place_is_refused(text: str, message: str) -> None:
    """The message says what to write."""
    with pytest.raises(UsageError, match=message):
        place_of(text, "store")


@pytest.mark.parametrize("text", ["sftp://me:secret@host/x", "s3://KEY:sec/secret@bucket/x"])
def test_a_password_is_refused_and_not_shown(text: str) -> None:
    """The place stands in headers, records and tasks."""
    with pytest.raises(UsageError, match="give credentials as the tools of your provider") as seen:
        place_of(text, "store")
    assert "secret" not in str(seen.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s3://bucket", r"pip install 'grb-check\[s3\]'"),
        ("gs://bucket", r"pip install 'grb-check\[gcs\]'"),
        ("abfs://bucket", "adlfs"),
    ],
)
def test_a_missing_package_is_named_before_any_work(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command that installs it, for the two that have an extra."""
    monkeypatch.setattr(place_module, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=f"needs a package that is missing: .*{message}"):
        place_of(text, "store")


def test_each_url_and_mode_has_a_cache_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that may not write to the store leaves nothing to one that may."""
    monkeypatch.setenv("GRB_CHECK_DATA", str(tmp_path))
    urls = ("memory://a", "memory://b")
    places = [StorePlace(url, read_only) for url in urls for read_only in (False, True)]
    caches = {place.cache for place in places}
    assert len(caches) == 4
    assert {path.parent for path in caches if path is not None} == {tmp_path / "stores"}
    assert StorePlace(str(tmp_path)).cache is None
    open_store(places[1]).save_text(KEY, "of a fork")
    assert open_store(places[1]).load_text(KEY) == "of a fork"
    assert open_store(places[0]).load_text(KEY) is None
    open_store(places[2]).save_text(KEY, "of b")
    assert open_store(places[3]).load_text(KEY) == "of b"


def test_a_folder_needs_neither_fsspec_nor_torch() -> None:
    """Nor does a URL load its package before the first access."""
    code = (
        "import sys\nfrom grb_check.store.place import open_store, place_of\n"
        "open_store(place_of('kept?mode=read', 'store')).load_text('0' * 64)\n"
        "assert not {'torch', 'fsspec', 's3fs', 'numpy'} & set(sys.modules)\n"
        "place_of('s3://bucket', 'store')\n"
        "assert not {'torch', 's3fs'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
