"""An HTTP server on the loopback that misbehaves as the tests of downloads ask it to."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        body: the whole file.
        status: of the answer.
        headers: in addition to those that the server writes.
        cut: the connection is closed after this many bytes of the body.
        length: whether the length is announced; otherwise the end of the connection ends the body.
        chunked: send chunks, and no length.
        pause: seconds before the body; ends early when the server is closed.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    length: bool = True
    chunked: bool = False
    pause: float = 0.0


@dataclass(frozen=True)
class Request:
    """A request: path (a whole URL if the server is used as a proxy) and headers."""

    path: str
    headers: Mapping[str, str]


@dataclass
class Server:
    """A running server: its port and the requests received."""

    port: int
    requests: list[Request]

    def url(self, path: str = "/file.zip") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def serving(*answers: Answer, routes: Mapping[str, Answer] | None = None) -> Iterator[Server]:
    """A server that gives these answers in turn, the last one for ever.

    Args:
        answers: for every path that is not in `routes`.
        routes: path -> answer, always the same.
    """
    requests: list[Request] = []
    closing = threading.Event()
    counted = threading.Lock()
    turn = iter(range(len(answers)))

    def choose(path: str) -> Answer:
        if routes and path in routes:
            return routes[path]
        with counted:
            return answers[next(turn, len(answers) - 1)]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # chunks are not for 1.0

        def do_GET(self) -> None:
            self.close_connection = True
            requests.append(Request(self.path, dict(self.headers)))
            _send(self, choose(self.path), closing)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Server(server.server_address[1], requests)
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _send(handler: BaseHTTPRequestHandler, answer: Answer, closing: threading.Event) -> None:
    handler.send_response(answer.status)
    _send_headers(handler, answer, len(answer.body))
    closing.wait(answer.pause)
    _send_body(handler, answer, answer.body)


def _send_headers(handler: BaseHTTPRequestHandler, answer: Answer, size: int) -> None:
    handler.send_header("Connection", "close")
    if answer.chunked:
        handler.send_header("Transfer-Encoding", "chunked")
    elif answer.length:
        handler.send_header("Content-Length", str(size))
    for key, value in answer.headers.items():
        handler.send_header(key, value)
    handler.end_headers()


def _send_body(handler: BaseHTTPRequestHandler, answer: Answer, body: bytes) -> None:
    sent = body if answer.cut is None else body[: answer.cut]
    if not answer.chunked:
        handler.wfile.write(sent)
        return
    if sent:
        handler.wfile.write(f"{len(sent):x}\r\n".encode() + sent + b"\r\n")
    if answer.cut is None:
        handler.wfile.write(b"0\r\n\r\n")


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip of these paths and contents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return buffer.getvalue()
