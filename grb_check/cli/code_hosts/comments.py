"""Keep one comment on a pull request up to date, whatever service it is on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from grb_check.reports.comment import comment_text, is_due, state_in
from grb_check.reports.digest import Digest

Done: TypeAlias = Literal["nothing", "unchanged", "created", "updated"]


class NoPullRequest(Exception):
    """There is no pull request to comment on; the message says why."""


@dataclass(frozen=True)
class Comment:
    """A comment, with its text as it was written."""

    number: int
    text: str


class PullRequest(Protocol):
    """The comments on one pull request, or notes on one merge request.

    Each method raises `Broken` for a failure after which to try again, and `Refused` for a final
    one; see `requesting`.
    """

    name: str
    run_url: str

    def comments(self) -> Iterable[Comment]:
        """Return the comments that the token may have written, the oldest first."""

    def create(self, text: str) -> None:
        """Add a comment."""

    def edit(self, number: int, text: str) -> None:
        """Replace the text of a comment."""


def publish(digest: Digest, pull_request: PullRequest, name: str) -> Done:
    """Create or edit the comment of that name if the verdicts are other than those in it.

    To be called again after `Broken`: whether a comment was created by a request that was not
    answered is read from the list, so that there are never two.
    """
    found = ((each, state_in(each.text, name)) for each in pull_request.comments())
    last = next(((each, state) for each, state in found if state is not None), None)
    before = last[1] if last is not None else None
    if not is_due(digest, before):
        return "nothing" if last is None else "unchanged"
    text = comment_text(digest, before, name, pull_request.run_url)
    if last is None:
        pull_request.create(text)
        return "created"
    pull_request.edit(last[0].number, text)
    return "updated"
