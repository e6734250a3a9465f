"""The comment on a pull request: its text, and the verdicts that the next run compares with.

Its first line is an HTML comment, the marker, with the name of the comment and one token for each
verdict that is not a plain pass. Tokens are digests, so that no name in a run can end the marker or
pose as one, and figures are not in them. What the reader sees is the verdict, what changed since
the last comment, and the summary of `reports/markdown.py`, folded.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from grb_check.errors import UsageError
from grb_check.reports.digest import BAD, STATUSES, Digest, Status
from grb_check.reports.markdown import LIMIT, markdown_text, span, title
from grb_check.reports.plain import clipped

DEFAULT_NAME: Final = "default"
LONGEST: Final = 65_000  # bytes; GitHub takes 65,536 characters and GitLab 1,000,000
MOST_TOKENS: Final = 2000  # of 8 characters each
NAMED: Final = 10  # verdicts of a kind that are named
NAME_LENGTH: Final = 200  # characters of a name that are shown
SLASHES: Final = 5000  # bytes, more than lines of messages can begin with a slash

_NAME: Final = re.compile(r"[A-Za-z0-9._]+(?:-[A-Za-z0-9._]+)*")  # without "--"
MARKER_START: Final = "<!-- grb_check comment "  # of each comment of ours
_MARKER: Final = re.compile(rf"{MARKER_START}(\S+) 1([:#])([A-Za-z0-9._]*) -->")
_TOKEN: Final = 8
# GitLab acts on a line that begins with a slash, such as /close, even in a code block whose fence
# has more than three backticks.
_QUICK_ACTION: Final = re.compile("^/", re.MULTILINE)


@dataclass(frozen=True)
class State:
    """The verdicts of a run that are no plain passes, as far as the next run needs them.

    Attributes:
        tokens: digests of a name with its status; one of all together if there are too many.
        listed: whether there is a token for each verdict, so that changes can be named.
    """

    tokens: frozenset[str]
    listed: bool = True


NOTHING: Final = State(frozenset())
_UNREADABLE: Final = State(frozenset(), listed=False)  # unlike that of any run


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The difference between two runs: names of verdicts, and the number of those without one."""

    failing: tuple[str, ...]
    passing: tuple[str, ...]
    gone: int


def check_name(name: str) -> str:
    """Return the name of a comment.

    Raises:
        UsageError: it cannot stand in a marker.
    """
    if len(name) > 50 or not _NAME.fullmatch(name):
        raise UsageError(
            f"--name {clipped(name, 60)!r}: a name has at most 50 of the characters A-Z, a-z, 0-9, "
            "'.', '_' and single '-' between them; give one for each job that comments"
        )
    return name


def state_of(digest: Digest) -> State:
    """Return the state of a run."""
    tokens = [_token(name, status) for name, status in _verdicts(digest).items()]
    tokens = sorted(each for each in tokens if each)
    if len(tokens) <= MOST_TOKENS:
        return State(frozenset(tokens))
    return State(frozenset([_token("".join(tokens), "fail")]), listed=False)


def state_in(body: str, name: str) -> State | None:
    """Return the state in the text of a comment; None if it is not a comment of that name."""
    found = _MARKER.match(body)
    if found is None or found[1] != name:
        return None
    if len(found[3]) % _TOKEN:
        return _UNREADABLE
    parts = range(0, len(found[3]), _TOKEN)
    return State(frozenset(found[3][at : at + _TOKEN] for at in parts), listed=found[2] == ":")


def is_due(digest: Digest, before: State | None) -> bool:
    """Whether a run has to be commented on.

    Args:
        digest: of the run.
        before: state of the last comment; None if there is none, in which case only a run that
            failed is worth one.
    """
    return not digest.green if before is None else state_of(digest) != before


def comment_text(
    digest: Digest, before: State | None, name: str = DEFAULT_NAME, run_url: str = ""
) -> str:
    """Return the comment on a run, at most `LONGEST` bytes of UTF-8.

    Args:
        digest: of the run.
        before: state of the last comment; None if there is none.
        name: of the comment.
        run_url: of the CI job, which is linked; empty for none.
    """
    head = title(digest)
    lines = [_marker(state_of(digest), name), head, "", *_news(digest, before)]
    if run_url:
        lines += [f"[Log of the run]({run_url})", ""]
    opened = "\n".join([*lines, "<details>", "<summary>Summary of the run</summary>", "", ""])
    closed = "\n</details>\n"
    room = LONGEST - len((opened + closed).encode()) - SLASHES
    summary = markdown_text([digest], min(LIMIT, room)).removeprefix(f"{head}\n").lstrip("\n")
    return _QUICK_ACTION.sub(" /", f"{opened}{summary}{closed}")


def changes(digest: Digest, before: State) -> Changes:
    """Return what a run changed since a listed state."""
    failing: list[str] = []
    passing: list[str] = []
    known: set[str] = set()
    for name, status in _verdicts(digest).items():
        was: Status = "pass"
        for each in STATUSES:
            if (token := _token(name, each)) in before.tokens:
                was = each
                known.add(token)
        if (was in BAD) != (status in BAD):
            (failing if status in BAD else passing).append(name)
    gone = len(before.tokens - known)
    return Changes(failing=tuple(failing), passing=tuple(passing), gone=gone)


def _verdicts(digest: Digest) -> Mapping[str, Status]:
    """Return the status of each case and of what else can fail; the worst of those of one name."""
    found: dict[str, Status] = {each.name: "fail" for each in digest.further}
    for line in (*digest.bad, *digest.unsure, *digest.lines):
        found.setdefault(digest.name_of(line), line.status)
    found |= dict.fromkeys(digest.unknown, "missing")
    return found or {"any case": "missing"}


def _token(name: str, status: Status) -> str:
    """Return the token of a verdict; empty for a plain pass."""
    if status == "pass":
        return ""
    raw = hashlib.sha256(f"{status}\n{name}".encode("utf-8", "replace")).digest()
    return base64.b64encode(raw[:6], altchars=b"._").decode()


def _marker(state: State, name: str) -> str:
    kind = ":" if state.listed else "#"
    return f"{MARKER_START}{check_name(name)} 1{kind}{''.join(sorted(state.tokens))} -->"


def _news(digest: Digest, before: State | None) -> list[str]:
    """The lines on what changed."""
    now = state_of(digest)
    if not now.listed or (before is not None and not before.listed):
        return ["Too many verdicts changed to name them here.", ""]
    found = changes(digest, before or NOTHING)
    new = "" if before is None else "newly "
    told = [f"{len(found.failing)} {new}failing"] if found.failing else []
    told += [f"{len(found.passing)} passing again"] if found.passing else []
    told += [f"{found.gone} no longer in the run"] if found.gone else []
    since = "In this run" if before is None else "Since the last comment"
    lines = [f"{since}: {', '.join(told) or 'the same failures'}."]
    if digest.green and (found.passing or found.gone):
        lines = [f"**The run passes again.** {lines[0]}"]
    return [*lines, "", *_named("❌", found.failing), *_named("✅", found.passing), ""]


def _named(sign: str, names: Iterable[str]) -> list[str]:
    every = list(names)
    shown = [f"- {sign} {span(clipped(each, NAME_LENGTH))}" for each in every[:NAMED]]
    return shown + ([f"- {sign} and {len(every) - NAMED} more"] if every[NAMED:] else [])
