"""The pull request of a GitHub Actions job.

https://docs.github.com/en/rest/issues/comments, and for the variables and the event
https://docs.github.com/en/actions/reference/workflows-and-actions/variables and
https://docs.github.com/en/webhooks/webhook-events-and-payloads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from grb_check.cli.code_hosts.api import Api, Denied, decoded
from grb_check.cli.code_hosts.comments import Comment, NoPullRequest
from grb_check.datasets.download.requesting import Retry
from grb_check.errors import UsageError
from grb_check.reports.comment import MARKER_START

API_URL: Final = "GITHUB_API_URL"
PUBLIC_API: Final = "https://api.github.com"
ADVICE: Final = (
    "give the job `permissions: pull-requests: write` and the step "
    "`env: GITHUB_TOKEN: ${{ github.token }}`"
)
_READ_ONLY_ACTOR: Final = "dependabot[bot]"  # its runs have the permissions of a fork
_RUN_ID: Final = re.compile(r"\d+")


class _Repository(msgspec.Struct):
    full_name: str = ""


class _Side(msgspec.Struct):
    sha: str = ""
    repo: _Repository | None = None  # null if the fork was deleted


class _Pull(msgspec.Struct):
    number: int
    head: _Side | None = None
    base: _Side | None = None

    @property
    def is_of_a_fork(self) -> bool:
        """Whether it is not known to come from the same repository."""
        sides = [each.repo.full_name for each in (self.head, self.base) if each and each.repo]
        return len(sides) < 2 or sides[0] != sides[1]


class _Issue(msgspec.Struct):
    number: int
    pull_request: Any = None


class _Owner(msgspec.Struct):
    login: str = ""


class _HeadRepository(msgspec.Struct):
    owner: _Owner


class _WorkflowRun(msgspec.Struct):
    head_branch: str | None = None
    head_sha: str = ""
    head_repository: _HeadRepository | None = None
    pull_requests: list[_Pull] = msgspec.field(default_factory=list)  # empty for those of forks


class _Event(msgspec.Struct):
    pull_request: _Pull | None = None
    issue: _Issue | None = None
    workflow_run: _WorkflowRun | None = None


class _Author(msgspec.Struct):
    login: str = ""
    type: str = "Bot"


class _IssueComment(msgspec.Struct):
    id: int
    body: str | None = None
    user: _Author | None = None


@dataclass(frozen=True)
class GitHubPullRequest:
    """A pull request on GitHub.

    Attributes:
        api: of the service.
        repository: `owner/name`.
        number: of the pull request.
        run_url: of the job; empty if unknown.
    """

    api: Api
    repository: str
    number: int
    run_url: str

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"pull request {self.number}"

    def comments(self) -> Iterator[Comment]:
        """Yield the comments of the account that the token belongs to."""
        author: _Author | None = None
        found = self.api.pages(f"{self._path}/{self.number}/comments", list[_IssueComment])
        for each in found:
            if (each.body or "").startswith(MARKER_START):
                author = author or self._author()
                if each.user is None or _is_by(each.user, author):
                    yield Comment(each.id, each.body or "")

    def create(self, text: str) -> None:
        """Add a comment."""
        self.api.request("POST", f"{self._path}/{self.number}/comments", {"body": text})

    def edit(self, number: int, text: str) -> None:
        """Replace the text of a comment."""
        self.api.request("PATCH", f"{self._path}/comments/{number}", {"body": text})

    @property
    def _path(self) -> str:
        return f"/repos/{quote(self.repository)}/issues"

    def _author(self) -> _Author:
        """The account of the token; without a name for that of a job, which may not ask."""
        try:
            return decoded(self.api.request("GET", "/user"), _Author)
        except Denied:
            return _Author()


def _is_by(user: _Author, author: _Author) -> bool:
    return user.login == author.login if author.login else user.type == "Bot"


def pull_request_of(environment: Mapping[str, str], retry: Retry) -> GitHubPullRequest:
    """Return the pull request of a job.

    Raises:
        NoPullRequest: the job is of none, or has no token and may be of a fork.
        UsageError: the file of the event cannot be read.
        Denied: there is no token.
        Broken, Refused: see `Api.request`.
    """
    event = _event(environment)
    if not (event.pull_request or event.workflow_run or (event.issue and event.issue.pull_request)):
        name = environment.get("GITHUB_EVENT_NAME") or "unknown"
        raise NoPullRequest(f"the event {name!r} is not about a pull request")
    token = environment.get("GITHUB_TOKEN", "").strip()
    if not token and is_read_only(environment):
        raise NoPullRequest("there is no GITHUB_TOKEN, as in jobs of forks")
    if not token:
        raise Denied("GITHUB_TOKEN is not set")
    api = Api(
        url=environment.get(API_URL) or PUBLIC_API,
        token=token,
        host="GitHub",
        headers={
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        retry=retry,
    )
    repository = environment.get("GITHUB_REPOSITORY", "")
    number = _number(event, api, repository)
    return GitHubPullRequest(api, repository, number, _run_url(environment))


def is_read_only(environment: Mapping[str, str]) -> bool:
    """Whether GitHub gives the job a token that cannot write, whatever the workflow asks for."""
    event = _event(environment)
    if environment.get("GITHUB_EVENT_NAME") == "pull_request_target" or not event.pull_request:
        return False
    return event.pull_request.is_of_a_fork or environment.get("GITHUB_ACTOR") == _READ_ONLY_ACTOR


def _event(environment: Mapping[str, str]) -> _Event:
    path = environment.get("GITHUB_EVENT_PATH", "")
    if not path:
        return _Event()
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=_Event)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(
            f"GITHUB_EVENT_PATH {path!r} cannot be read as an event of GitHub ({error}); leave the "
            "variable as GitHub sets it"
        ) from None


def _number(event: _Event, api: Api, repository: str) -> int:
    if event.pull_request is not None:
        return event.pull_request.number
    if event.issue is not None:
        return event.issue.number
    run = event.workflow_run or _WorkflowRun()
    if run.pull_requests:
        return run.pull_requests[0].number
    owner = run.head_repository.owner.login if run.head_repository is not None else ""
    query = {"state": "open", "head": f"{owner}:{run.head_branch}"}
    for each in api.pages(f"/repos/{quote(repository)}/pulls", list[_Pull], query):
        if each.head is not None and each.head.sha == run.head_sha:
            return each.number
    raise NoPullRequest(f"no open pull request has the commit {run.head_sha[:12]} of the run")


def _run_url(environment: Mapping[str, str]) -> str:
    server, run = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_RUN_ID", "")
    repository = environment.get("GITHUB_REPOSITORY", "")
    return f"{server}/{repository}/actions/runs/{run}" if server and _RUN_ID.fullmatch(run) else ""
