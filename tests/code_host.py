"""A server on the loopback that speaks GitHub's and GitLab's API of comments, and can misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghs_0123456789abcdefSECRET"
PAGE = 100


@dataclass(frozen=True)
class Trouble:
    """One answer instead of the usual one, to a request with this method.

    Attributes:
        method: of the request.
        status: 0 closes the connection without an answer.
        body: of the answer.
        headers: of the answer.
        acts: whether the request has its effect all the same.
        pause: seconds before the answer; ends early when the server is closed.
        cut: bytes of the body after which the connection is closed.
    """

    method: str
    status: int = 500
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    acts: bool = False
    pause: float = 0.0
    cut: int | None = None


@dataclass
class CodeHost:
    """A running server.

    Attributes:
        port: of it.
        comments: of the one pull request, as the API has them.
        requests: method, path and headers of each.
        troubles: used up in turn by requests with their method.
        login: of the account of the token; empty for one that may not ask.
        pulls: answer to a search for pull requests.
    """

    port: int
    comments: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    login: str = ""
    pulls: Sequence[Mapping[str, Any]] = ()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def writes(self) -> list[str]:
        """The method of each request that is not a read."""
        return [method for method, _, _ in self.requests if method != "GET"]

    @property
    def bodies(self) -> list[str]:
        """The text of each comment."""
        return [each["body"] for each in self.comments]

    def add(self, body: str, author: str = "github-actions[bot]", kind: str = "Bot") -> None:
        """Add a comment."""
        number = 1000 + len(self.comments)
        user = {"login": author, "type": kind, "username": author, "id": 5}
        self.comments.append({"id": number, "body": body, "user": user, "author": user})

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any, dict[str, str]]:
        """Do what the API does."""
        parts, query = urlsplit(path), parse_qs(urlsplit(path).query)
        last = parts.path.rpartition("/")[2]
        if last == "user":
            known = {"login": self.login, "username": self.login, "type": "User"}
            forbidden = {"message": "Resource not accessible by integration"}
            return (200, known, {}) if self.login else (403, forbidden, {})
        if method == "GET":
            every = self.pulls if last == "pulls" else self.comments
            page = int(query.get("page", ["1"])[0])
            more = len(every) > page * PAGE
            links = {"Link": f'<{self.url}{parts.path}?page={page + 1}>; rel="next"'}
            links["X-Next-Page"] = str(page + 1)
            return 200, every[(page - 1) * PAGE : page * PAGE], links if more else {}
        text = json.loads(body)["body"]
        if method == "POST":
            self.add(text, self.login or "github-actions[bot]", "User" if self.login else "Bot")
            return 201, self.comments[-1], {}
        found = next(each for each in self.comments if str(each["id"]) == last)
        found["body"] = text
        return 200, found, {}


@contextmanager
def code_host() -> Iterator[CodeHost]:
    """A server of one pull request without comments."""
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            self.close_connection = True
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            host.requests.append((self.command, self.path, dict(self.headers)))
            trouble = next((each for each in host.troubles if each.method == self.command), None)
            if trouble is not None:
                host.troubles.remove(trouble)
            if trouble is None or trouble.acts:
                status, content, headers = host.answer(self.command, self.path, body)
                sent = json.dumps(content).encode()
            if trouble is not None:
                closing.wait(trouble.pause)
                if not trouble.status:
                    return
                status, sent, headers = trouble.status, trouble.body, dict(trouble.headers)
            self.send_response(status)
            headers.setdefault("Content-Type", "application/json")
            for name, value in {**headers, "Content-Length": str(len(sent))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent if trouble is None else sent[: trouble.cut])

        do_GET = do_POST = do_PATCH = do_PUT = handle_any

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host = CodeHost(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield host
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
