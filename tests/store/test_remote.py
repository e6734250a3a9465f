"""Stores behind a URL: an S3 server of loopback that works, one that fails, and others."""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
import pytest
from aiobotocore.session import AioSession
from faulty_s3 import ENVIRONMENT, Fault, Handler, Server, serving
from fsspec.config import conf
from moto.server import ThreadedMotoServer
from store_workers import KEY

from grb_check.errors import StoreWarning
from grb_check.files.npz_file import seal
from grb_check.store import remote as remote_module
from grb_check.store.remote import Remote
from grb_check.store.store import Store

OTHER = Store(None).key(case="other")
RIGHT = {"right": np.arange(600.0)}
NAME = f"/bucket/runs/{KEY[:2]}/{KEY}.npz"
URL = "s3://bucket/runs"


def sealed(key: str = KEY, **changes: Any) -> bytes:
    """A file of a store, with changes of its head."""
    return seal({"format": 1, "key": key, "kind": "arrays", "notes": []} | changes, RIGHT)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the tests, whatever the machine has."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def servers() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def session() -> AioSession:
    return AioSession()


@pytest.fixture
def s3(servers: Server, session: AioSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server, with one object and without faults."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", servers.url)
    monkeypatch.setitem(conf, "s3", {"session": session})  # making one takes 0.2 s
    servers.objects, servers.asked, servers.fault = {NAME: sealed()}, [], None
    servers.released.clear()
    yield servers
    servers.released.set()


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """The address of an S3 server with most of the protocol."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def bucket(moto: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket there."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    name = uuid.uuid4().hex
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir(name)
    return name


def objects(bucket: str) -> dict[str, bytes]:
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    return {path: files.cat_file(path) for path in files.find(bucket)}


def test_what_one_machine_stores_another_reads(bucket: str, tmp_path: Path) -> None:
    """From an S3 server, with the files of a folder, into its cache."""
    url = f"s3://{bucket}/a/b"
    first, second = (Store(tmp_path / name, remote=Remote(url)) for name in "ab")
    assert second.load_text(KEY) is None
    with first.lock(KEY):
        first.save_text(KEY, "found")
    assert second.load_text(KEY) == "found"
    (path,) = (tmp_path / "a").glob("*/*.npz")
    assert objects(bucket) == {f"{bucket}/a/b/{KEY[:2]}/{KEY}.npz": path.read_bytes()}
    assert (tmp_path / "b" / KEY[:2] / path.name).read_bytes() == path.read_bytes()


def failing(status: int, code: str = "", methods: str = "GET PUT DELETE") -> Fault:
    """Answer with an error of S3."""

    def fault(handler: Handler) -> bool:
        if handler.command in methods:
            handler.error(status, code)
        return handler.command in methods

    return fault


def sending(body: bytes, length: int | None = None, status: int = 200) -> Fault:
    """Answer reads with this body and this Content-Length, then end the connection."""

    def fault(handler: Handler) -> bool:
        if handler.command == "GET":
            handler.answer(status, body, length)
        return handler.command == "GET"

    return fault


def sending_pages(handler: Handler) -> bool:
    """Answer everything with a page, as a network does that wants a login."""
    handler.answer(200, b"<html>Log in</html>")
    return True


def resetting(handler: Handler) -> bool:
    handler.cut()
    return True


def silent(handler: Handler) -> bool:
    handler.server.released.wait(20)
    return True


def trickling(handler: Handler) -> bool:
    """Send a byte now and then, which no timeout of a socket notices."""
    handler.answer(200, length=len(sealed()))
    for byte in sealed():
        if handler.server.released.wait(0.05):
            break
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
    return True


def talking_otherwise(handler: Handler) -> bool:
    handler.wfile.write(b"220 mail.example.org ESMTP\r\n")
    return True


def sending_elsewhere(handler: Handler) -> bool:
    handler.send_response(307)
    handler.send_header("Location", handler.path)
    handler.send_header("Content-Length", "0")
    handler.end_headers()
    return True


class Case(NamedTuple):
    """A fault of the server.

    Attributes:
        fault: of the server.
        message: pattern of the warning.
        last: whether the server is not asked again; None if that depends on packets.
        deadline: seconds for a request.
    """

    fault: Fault
    message: str
    last: bool | None = True
    deadline: float = 10.0


FAULTS = {
    "forbidden": Case(failing(403, "AccessDenied"), "reading .*PermissionError", last=False),
    "wrong key": Case(failing(403, "InvalidAccessKeyId"), "reading .*PermissionErr", last=False),
    "read-only": Case(failing(403, "AccessDenied", "PUT DELETE"), "nothing is added", last=False),
    "no bucket": Case(failing(404, "NoSuchBucket"), "reading .*NoSuchBucket!"),
    "no bucket to write to": Case(failing(404, "NoSuchBucket", "PUT"), "writing .*NoSuchBucket!"),
    "internal error": Case(failing(500), "reading .*OSError"),
    "error of writes": Case(failing(500, "", "PUT"), "writing .*OSError"),
    "slow down": Case(failing(503, "SlowDown"), "reading .*SlowDown!"),
    "reset": Case(resetting, "reading .*Connection"),
    "half a body": Case(sending(sealed()[:300], len(sealed())), "reading .*ContentLength|Payload"),
    "part of a body": Case(sending(sealed()[:300]), "truncated or not a file", last=False),
    "length too small": Case(sending(sealed(), 300), "reading|truncated", last=None),
    "length no number": Case(sending(b"", -1), "reading"),
    "slow body": Case(trickling, "no answer within 1 s", deadline=1.0),
    "no answer": Case(silent, "no answer within 1 s", deadline=1.0),
    "no HTTP": Case(talking_otherwise, "reading"),
    "redirected": Case(sending_elsewhere, "reading"),
    "HTML": Case(sending(b"<html>No such page</html>"), "truncated or not a file", last=False),
    "HTML for all": Case(sending_pages, "truncated or not a file", last=False),
    "empty": Case(sending(b""), "truncated or not a file", last=False),
    "zeros": Case(sending(bytes(5000)), "truncated or not a file", last=False),
}


def run_once(store: Store) -> None:
    """What a run does for one result."""
    store.load_arrays(KEY)
    store.save_arrays(KEY, RIGHT)


def run(store: Store) -> list[str]:
    """What a run does with a store, and the warnings of it; it finds nothing that is wrong."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", StoreWarning)
        with store.lock(KEY):
            found = store.load_arrays(KEY)
            assert found is None or np.array_equal(found["right"], RIGHT["right"])
            store.save_arrays(KEY, RIGHT)
        for key in (OTHER, KEY):
            store.save_arrays(key, RIGHT)
            found = store.load_arrays(key)
            assert found is None or np.array_equal(found["right"], RIGHT["right"])
        store.discard(OTHER, "of no use")
    return [str(each.message) for each in seen if each.category is StoreWarning]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_server_is_one_warning(s3: Server, name: str, tmp_path: Path) -> None:
    """Nothing raises, nothing wrong is read, and results are kept on this machine."""
    case = FAULTS[name]
    s3.fault = case.fault
    store = Store(tmp_path, remote=Remote(URL, deadline=case.deadline))
    (warning,) = run(store)
    assert warning.startswith(f"the store {URL}: ")
    assert re.search(case.message, warning), warning
    assert store.load_arrays(KEY) is not None
    asked = len(s3.asked)
    assert store.load_arrays(Store(None).key(case="new")) is None
    store.save_arrays(OTHER, RIGHT)
    assert case.last is None or (len(s3.asked) == asked) is case.last
    assert asked <= 32  # with all retries


@pytest.mark.parametrize("name", ["forbidden", "read-only", "internal error", "part of a body"])
def test_the_warning_can_be_made_an_error(s3: Server, name: str, tmp_path: Path) -> None:
    """For runs that must not go without the store."""
    s3.fault = FAULTS[name].fault
    store = Store(tmp_path, remote=Remote(URL))
    with warnings.catch_warnings():
        warnings.simplefilter("error", StoreWarning)
        with pytest.raises(StoreWarning, match=URL):
            run_once(store)


DAMAGED = {
    "flipped": (lambda content: content[:400] + bytes([content[400] ^ 1]) + content[401:], "damag"),
    "short": (lambda content: content[:-1], "truncated"),
    "of another key": (lambda _: sealed(OTHER), f"{OTHER}.*expected"),
    "of another kind": (lambda _: sealed(kind="perturbation"), "perturbation.*expected"),
    "of another format": (lambda _: sealed(format=2), "'format': 2.*expected"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_object_is_replaced(s3: Server, name: str, tmp_path: Path) -> None:
    """It is not used, removed at once, and made again for everybody."""
    damage, message = DAMAGED[name]
    s3.objects[NAME] = damage(sealed())
    store = Store(tmp_path, remote=Remote(URL))
    with pytest.warns(StoreWarning, match=message) as seen:
        assert store.load_arrays(KEY) is None
    assert len(seen) == 1
    assert s3.objects == {}
    assert not [*tmp_path.glob("*/*.npz")]
    store.save_arrays(KEY, RIGHT)
    assert s3.objects == {NAME: sealed()}


def test_a_slow_server_is_given_up_when_the_patience_ends(
    s3: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it sent is used; then the run goes on without it."""
    monkeypatch.setattr(remote_module, "_PROMPT", 5.0)
    remote = Remote(URL, patience=1e-9)
    assert remote.read(f"{KEY[:2]}/{KEY}.npz") == sealed()
    monkeypatch.setattr(remote_module, "_PROMPT", 0.0)
    monkeypatch.setattr(remote_module, "wait", lambda answers, _: wait(answers))
    with pytest.warns(StoreWarning, match="its answers are too slow"):
        assert remote.read(f"{KEY[:2]}/{KEY}.npz") == sealed()
    asked = len(s3.asked)
    assert remote.read(f"{KEY[:2]}/{KEY}.npz") is None
    assert len(s3.asked) == asked


def test_directories_are_made_where_there_are_some(tmp_path: Path) -> None:
    """As on a server of files; in an object store they are parts of names."""
    url = (tmp_path / "shared").as_uri()
    Store(tmp_path / "a", remote=Remote(url)).save_text(KEY, "found")
    assert Store(tmp_path / "b", remote=Remote(url)).load_text(KEY) == "found"
    assert (tmp_path / "shared" / KEY[:2] / f"{KEY}.npz").is_file()
