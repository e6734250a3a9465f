"""The merge request of a GitLab CI/CD job.

https://docs.gitlab.com/api/notes/#merge-requests, and for the variables
https://docs.gitlab.com/ci/variables/predefined_variables/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from grb_check.cli.code_hosts.api import Api, Denied, decoded
from grb_check.cli.code_hosts.comments import Comment, NoPullRequest
from grb_check.datasets.download.requesting import Retry
from grb_check.reports.comment import MARKER_START

API_URL: Final = "CI_API_V4_URL"
ADVICE: Final = (
    "set the variable GITLAB_TOKEN to a project access token with the role Reporter and the scope "
    "`api`; CI_JOB_TOKEN cannot write notes"
)


OLDEST_FIRST: Final = {"sort": "asc", "order_by": "created_at"}


class _Author(msgspec.Struct):
    username: str = ""


class _Note(msgspec.Struct):
    id: int
    body: str | None = None
    author: _Author | None = None
    system: bool = False


@dataclass(frozen=True)
class GitLabMergeRequest:
    """A merge request on GitLab.

    Attributes:
        api: of the service.
        project: number or path.
        number: of the merge request in its project (`iid`).
        run_url: of the job; empty if unknown.
    """

    api: Api
    project: str
    number: str
    run_url: str

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"merge request {self.number}"

    def comments(self) -> Iterator[Comment]:
        """Yield the notes of the user that the token belongs to."""
        author: _Author | None = None
        for each in self.api.pages(self._path, list[_Note], OLDEST_FIRST):
            if not each.system and (each.body or "").startswith(MARKER_START):
                author = author or decoded(self.api.request("GET", "/user"), _Author)
                if each.author is None or each.author.username == author.username:
                    yield Comment(each.id, each.body or "")

    def create(self, text: str) -> None:
        """Add a note."""
        self.api.request("POST", self._path, {"body": text})

    def edit(self, number: int, text: str) -> None:
        """Replace the text of a note."""
        self.api.request("PUT", f"{self._path}/{number}", {"body": text})

    @property
    def _path(self) -> str:
        project, number = (quote(each, safe="") for each in (self.project, self.number))
        return f"/projects/{project}/merge_requests/{number}/notes"


def pull_request_of(environment: Mapping[str, str], retry: Retry) -> GitLabMergeRequest:
    """Return the merge request of a job.

    Raises:
        NoPullRequest: the job is of none, or of a fork and without a token.
        UsageError: the URL of the API is not one.
        Denied: there is no token.
    """
    number = environment.get("CI_MERGE_REQUEST_IID", "")
    if not number:
        raise NoPullRequest("CI_MERGE_REQUEST_IID is not set: not a merge request pipeline")
    token = environment.get("GITLAB_TOKEN", "").strip()
    if not token and is_read_only(environment):
        raise NoPullRequest("there is no GITLAB_TOKEN, as in jobs of forks")
    if not token:
        raise Denied("GITLAB_TOKEN is not set")
    api = Api(environment.get(API_URL, ""), token, "GitLab", retry=retry)
    project = environment.get("CI_MERGE_REQUEST_PROJECT_ID") or environment.get("CI_PROJECT_ID", "")
    return GitLabMergeRequest(api, project, number, environment.get("CI_JOB_URL", ""))


def is_read_only(environment: Mapping[str, str]) -> bool:
    """Whether the merge request is not known to come from the same project: a fork has no token."""
    source = environment.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID")
    target = environment.get("CI_MERGE_REQUEST_PROJECT_ID")
    return source is None or source != target
