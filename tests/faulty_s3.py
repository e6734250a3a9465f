"""An S3 server on loopback that answers as it is told: reset, slow, cut short, or well."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

# Credentials of the tests, whatever the machine has.
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "*",
    "no_proxy": "*",
}


class Server(ThreadingHTTPServer):
    """Objects by path, `/bucket/key`.

    Attributes:
        objects: content by path.
        asked: method and path of each request.
        fault: answers instead; returns whether it did.
        released: set when requests that hang are to end.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.fault: Fault | None = None
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what the tests are about."""


class Handler(BaseHTTPRequestHandler):
    """Get, put and delete whole objects, as S3 does."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet, or each answer waits for an acknowledgement
    server: Server

    def handle_expect_100(self) -> bool:
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def answer(self, code: int, body: bytes = b"", length: int | None = None) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def error(self, status: int, code: str) -> None:
        self.answer(
            status, f"<Error><Code>{code}</Code><Message>{code}!</Message></Error>".encode()
        )

    def cut(self) -> None:
        """End the connection with a reset."""
        self.wfile.flush()
        linger = struct.pack("hh" if hasattr(socket, "SO_EXCLUSIVEADDRUSE") else "ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path))
        if self.server.fault is not None and self.server.fault(self):
            self.close_connection = True
            return
        objects, path = self.server.objects, self.path.partition("?")[0]
        if self.command == "PUT":
            objects[path] = body
        elif self.command == "DELETE":
            objects.pop(path, None)
        elif path not in objects:
            self.error(404, "NoSuchKey")
            return
        self.answer(200, objects[path] if self.command == "GET" else b"")

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = respond

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Fault = Callable[[Handler], bool]


@contextmanager
def serving() -> Iterator[Server]:
    """A server that runs in this process."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
