"""`python -m grb_check comment` against servers on the loopback that speak both APIs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from code_host import TOKEN, CodeHost, Trouble, code_host
from outcome_factory import CASE
from record_factory import entry, file_of, measured, record, view

from grb_check.__main__ import main
from grb_check.cli.code_hosts.api import Api, is_readable_on_the_way
from grb_check.cli.comment import comment
from grb_check.datasets.download.requesting import Retry
from grb_check.reports.comment import DEFAULT_NAME

SAME = {"repo": {"full_name": "me/project"}, "sha": "a" * 40}
FORK = {"repo": {"full_name": "you/project"}, "sha": "b" * 40}
SERVICES = ("github", "gitlab")


@pytest.fixture
def host() -> Iterator[CodeHost]:
    with code_host() as running:
        yield running


class Job:
    """A CI job on one of the services, which waits no time."""

    def __init__(self, service: str, host: CodeHost, folder: Path) -> None:
        self.folder, self.slept = folder, list[float]()
        self.retry = Retry(read_timeout=0.3, longest_wait=20.0, sleep=self.slept.append)
        if service == "gitlab":
            host.login = "project_7_bot"
            self.environment = {
                "CI_API_V4_URL": host.url,
                "CI_PROJECT_ID": "7",
                "CI_MERGE_REQUEST_IID": "3",
                "CI_MERGE_REQUEST_PROJECT_ID": "7",
                "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "7",
                "CI_JOB_URL": "https://gitlab.example/me/project/-/jobs/9",
                "GITLAB_TOKEN": TOKEN,
            }
            return
        self.environment = {
            "GITHUB_API_URL": host.url,
            "GITHUB_REPOSITORY": "me/project",
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_RUN_ID": "9",
        }
        self.event(pull_request={"number": 3, "head": SAME, "base": SAME})

    def event(self, name: str = "pull_request", **content: Any) -> None:
        """Let the job be of that event."""
        path = self.folder / "event.json"
        path.write_text(json.dumps({"action": "opened", **content}))
        self.environment |= {"GITHUB_EVENT_PATH": str(path), "GITHUB_EVENT_NAME": name}

    def run(self, *drops: float, name: str = DEFAULT_NAME) -> int:
        """Comment on a run of one case for each drop, of which those above 30 % fail."""
        cases = [
            entry(case, measured(case, drop))
            for case, drop in zip(map(_case, ("easy", "medium", "hard")), drops, strict=False)
        ]
        return comment(view(record(cases)), name, self.environment, self.retry)


def _case(level: str) -> Any:
    return type(CASE)(CASE.dataset, level, CASE.scenario, CASE.attack)


@pytest.fixture(params=SERVICES)
def job(request: pytest.FixtureRequest, host: CodeHost, tmp_path: Path) -> Job:
    return Job(request.param, host, tmp_path)


@pytest.fixture
def github(host: CodeHost, tmp_path: Path) -> Job:
    return Job("github", host, tmp_path)


@pytest.fixture
def gitlab(host: CodeHost, tmp_path: Path) -> Job:
    return Job("gitlab", host, tmp_path)


def test_a_comment_follows_the_verdicts(job: Job, host: CodeHost) -> None:
    """Silent while all pass or figures change, created at a failure, edited at other verdicts."""
    edit = "PUT" if "CI_API_V4_URL" in job.environment else "PATCH"
    assert job.run(0.1, 0.1) == 0
    assert host.writes == []
    assert job.run(0.5, 0.1) == 0
    assert host.writes == ["POST"]
    assert "In this run: 1 failing." in host.bodies[0]
    assert "[Log of the run](https://git" in host.bodies[0]
    assert job.run(0.6, 0.2) == 0
    assert host.writes == ["POST"]
    assert job.run(0.1, 0.5) == 0
    assert "1 newly failing, 1 passing again" in host.bodies[0]
    assert job.run(0.1, 0.1) == 0
    assert "**The run passes again.** Since the last comment: 1 passing again." in host.bodies[0]
    assert host.writes == ["POST", edit, edit]
    assert len(host.comments) == 1


def test_each_name_has_its_own_comment(job: Job, host: CodeHost) -> None:
    """As of two jobs on one pull request."""
    for name in ("gcn", "gat", "gcn"):
        job.run(0.5, name=name)
    assert len(host.comments) == 2


def test_the_comment_is_found_on_a_later_page(job: Job, host: CodeHost) -> None:
    """Among hundreds of others."""
    for number in range(240):
        host.add(f"comment {number}", "somebody", "User")
    job.run(0.5)
    for number in range(30):
        host.add(f"later comment {number}", "somebody", "User")
    host.requests.clear()
    job.run(0.5, 0.5)
    assert len([each for each in host.bodies if "grb_check comment" in each]) == 1
    assert len(host.writes) == 1


def test_comments_of_others_are_not_edited(job: Job, host: CodeHost) -> None:
    """Neither a quotation of ours nor a copy of its source under another account."""
    job.run(0.5)
    text = host.bodies[0]
    host.comments.clear()
    host.add(text, "mallory", "User")
    host.add("> " + text, host.login or "github-actions[bot]", "User" if host.login else "Bot")
    assert job.run(0.1) == 0
    assert host.writes == ["POST"]
    job.run(0.5, 0.5)
    assert host.bodies[:2] == [text, "> " + text]
    assert len(host.comments) == 3


def test_an_unanswered_request_is_not_repeated_blindly(job: Job, host: CodeHost) -> None:
    """The comment was created by a request that timed out, was reset, cut short or ended in 502."""
    troubles = (
        Trouble("POST", acts=True, pause=5.0),
        Trouble("POST", status=0, acts=True),
        Trouble("POST", status=502, acts=True, body=b"<html>Bad gateway</html>"),
        Trouble("POST", status=201, acts=True, body=b'{"id": 1, "body": "text"}', cut=9),
    )
    for trouble in troubles:
        host.comments.clear()
        host.requests.clear()
        host.troubles = [trouble]
        assert job.run(0.5) == 0
        assert host.writes == ["POST"]
        assert len(host.comments) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble("POST", status=500),
        Trouble("POST", status=0),
        Trouble("POST", status=429, headers={"Retry-After": "1"}),
        Trouble("GET", status=503, body=b"<html>Unicorn</html>"),
        Trouble(
            "GET", status=200, body=b"<html>Log in</html>", headers={"Content-Type": "text/html"}
        ),
        Trouble("GET", status=200, body=b'[{"id": 1, "bo'),
        Trouble("GET", status=200, body=b'[{"id": 1, "body": "text"}]', cut=5),
        Trouble("GET", status=200, body=b'{"id": 1}'),
        Trouble("GET", status=200, body=b'[{"id": "one", "body": 2}]'),
    ],
    ids=repr,
)
def test_passing_trouble_is_passed_over(job: Job, host: CodeHost, trouble: Trouble) -> None:
    """One more attempt, and there is one comment."""
    host.troubles = [trouble]
    assert job.run(0.5) == 0
    assert len(host.comments) == 1
    assert job.slept == [1.0]


def test_trouble_that_lasts_is_a_note(
    job: Job, host: CodeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no failure: CI is not red because of it, the next run comments."""
    host.troubles = [Trouble("GET", status=502)] * 4
    assert job.run(0.5) == 0
    assert job.slept == [1.0, 2.0, 4.0]
    out, err = capsys.readouterr()
    assert out == ""
    assert "answered HTTP 502 (4 attempts); the next run tries again" in err
    assert err.count("\n") == 1


def test_github_shows_that_note_on_the_page_of_the_run(
    github: Job, host: CodeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that a service that never answers is not overlooked."""
    github.environment["GITHUB_ACTIONS"] = "true"
    host.troubles = [Trouble("GET", status=502)] * 4
    assert github.run(0.5) == 0
    assert capsys.readouterr().out.startswith("::warning title=grb_check::no comment: GitHub")


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (429, {"Retry-After": "7"}, 7.0),
        (429, {"Retry-After": "4000"}, 20.0),
        (429, {"Retry-After": "soon"}, 1.0),
        (403, {"Retry-After": "3"}, 3.0),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, 0.0),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}, 20.0),
    ],
)
def test_limits_of_requests_are_waited_for(
    job: Job, host: CodeHost, status: int, headers: dict[str, str], expected: float
) -> None:
    """GitHub's primary and secondary limits and GitLab's, for at most the longest wait."""
    host.troubles = [Trouble("POST", status=status, headers=headers)]
    assert job.run(0.5) == 0
    assert job.slept == [expected]
    assert len(host.comments) == 1


def test_a_secondary_limit_without_headers_is_waited_for(job: Job, host: CodeHost) -> None:
    """GitHub may leave `Retry-After` out."""
    body = b'{"message": "You have exceeded a secondary rate limit."}'
    host.troubles = [Trouble("POST", status=403, body=body)]
    assert job.run(0.5) == 0
    assert len(host.comments) == 1


def test_a_limit_may_give_a_date(job: Job, host: CodeHost) -> None:
    """Of RFC 9110."""
    then = formatdate(time.time() + 12, usegmt=True)
    host.troubles = [Trouble("POST", status=429, headers={"Retry-After": then})]
    assert job.run(0.5) == 0
    assert 5 < job.slept[0] <= 12


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_missing_permission_fails_and_says_what_to_do(
    job: Job, host: CodeHost, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason that the service gives."""
    body = b'{"message": "Resource not accessible by integration"}'
    host.troubles = [Trouble("POST", status=status, body=body)]
    assert job.run(0.5) == 1
    told = capsys.readouterr().err
    assert f"HTTP {status}: Resource not accessible by integration; " in told
    on_gitlab = "CI_API_V4_URL" in job.environment
    assert ("CI_JOB_TOKEN cannot write notes" if on_gitlab else "pull-requests: write") in told
    assert told.count("\n") == 1


def test_a_refused_text_fails(job: Job, host: CodeHost, capsys: pytest.CaptureFixture[str]) -> None:
    """422 is final."""
    host.troubles = [Trouble("POST", status=422, body=b'{"message": "Validation Failed"}')]
    assert job.run(0.5) == 1
    assert "HTTP 422: Validation Failed" in capsys.readouterr().err
    assert job.slept == []


def make_fork(job: Job) -> None:
    """Let the pull request come from a fork."""
    job.environment["CI_MERGE_REQUEST_SOURCE_PROJECT_ID"] = "8"
    if "GITHUB_REPOSITORY" in job.environment:
        job.event(pull_request={"number": 3, "head": FORK, "base": SAME})


@pytest.mark.parametrize("status", [401, 403])
def test_the_read_only_token_of_a_fork_is_no_failure(
    job: Job, host: CodeHost, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and 0."""
    make_fork(job)
    host.troubles = [Trouble("POST", status=status)]
    assert job.run(0.5) == 0
    out, err = capsys.readouterr()
    assert out.startswith("no comment: the token of a fork's job cannot write")
    assert (out.count("\n"), err) == (1, "")


def test_a_job_of_a_fork_without_a_token_is_no_failure(
    job: Job, host: CodeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    """And asks nothing of the service."""
    make_fork(job)
    job.environment |= {"GITHUB_TOKEN": "", "GITLAB_TOKEN": ""}
    assert job.run(0.5) == 0
    assert "as in jobs of forks" in capsys.readouterr().out
    assert host.requests == []


def test_a_forgotten_token_fails(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    """On a branch of the same repository, where there is one to give."""
    job.environment |= {"GITHUB_TOKEN": "", "GITLAB_TOKEN": ""}
    assert job.run(0.5) == 1
    assert "_TOKEN is not set; " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("head", "actor", "event", "expected"),
    [
        ({"sha": "c", "repo": None}, "me", "pull_request", 0),
        (SAME, "dependabot[bot]", "pull_request", 0),
        (FORK, "me", "pull_request_target", 1),
    ],
    ids=["deleted fork", "dependabot", "pull_request_target"],
)
def test_who_has_a_read_only_token(
    github: Job, host: CodeHost, head: dict[str, Any], actor: str, event: str, expected: int
) -> None:
    """As GitHub documents it."""
    github.event(event, pull_request={"number": 3, "head": head, "base": SAME})
    github.environment["GITHUB_ACTOR"] = actor
    host.troubles = [Trouble("POST", status=403)]
    assert github.run(0.5) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [("push", {"ref": "refs/heads/main"}), ("issue_comment", {"issue": {"number": 5}})],
)
def test_an_event_without_a_pull_request_is_no_failure(
    github: Job,
    host: CodeHost,
    name: str,
    content: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A push, and a comment on an issue."""
    github.event(name, **content)
    assert github.run(0.5) == 0
    assert f"the event '{name}' is not about a pull request" in capsys.readouterr().out
    assert host.requests == []


def test_a_branch_pipeline_is_no_failure(gitlab: Job, capsys: pytest.CaptureFixture[str]) -> None:
    """Only merge request pipelines have the variable."""
    del gitlab.environment["CI_MERGE_REQUEST_IID"]
    assert gitlab.run(0.5) == 0
    assert "not a merge request pipeline" in capsys.readouterr().out


def test_a_comment_on_a_pull_request_is_an_event_of_it(github: Job, host: CodeHost) -> None:
    """`issue_comment` names the pull request as an issue."""
    github.event("issue_comment", issue={"number": 12, "pull_request": {"url": "https://x"}})
    assert github.run(0.5) == 0
    assert "/issues/12/comments" in host.requests[0][1]


RUN = {"head_sha": "b" * 40, "head_branch": "fix", "head_repository": {"owner": {"login": "you"}}}


@pytest.mark.parametrize("listed", [[{"number": 4}], []], ids=["own", "fork"])
def test_the_pull_request_of_another_workflow(
    github: Job, host: CodeHost, listed: list[dict[str, int]]
) -> None:
    """`workflow_run` lists those of the repository; those of forks are found by their commit."""
    host.pulls = [{"number": 1, "head": SAME}, {"number": 4, "head": FORK}]
    github.event("workflow_run", workflow_run={**RUN, "pull_requests": listed})
    assert github.run(0.5) == 0
    assert "/issues/4/comments" in host.requests[-1][1]
    if not listed:
        assert "/pulls?state=open&head=you%3Afix" in host.requests[0][1]


def test_a_workflow_run_of_no_pull_request_is_no_failure(
    github: Job, host: CodeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of a branch, or of a commit that is no longer the last."""
    host.pulls = [{"number": 1, "head": SAME}]
    github.event("workflow_run", workflow_run=RUN)
    assert github.run(0.5) == 0
    assert "no open pull request has the commit bbbbbbbbbbbb" in capsys.readouterr().out


def test_the_token_does_not_follow_a_redirection_to_another_host(job: Job, host: CodeHost) -> None:
    """It stays with the host that it is for; another port is another host too."""
    with code_host() as other:
        elsewhere = {"Location": f"http://localhost:{other.port}/elsewhere?"}
        host.troubles = [Trouble("GET", status=307, headers=elsewhere)]
        assert job.run(0.1) == 0
        (((_, path, headers)),) = other.requests
    assert path.startswith("/elsewhere")
    assert TOKEN not in str(headers)
    assert TOKEN in host.requests[0][2]["Authorization"]


@pytest.mark.parametrize("token", ["two words", f"{TOKEN}\nX-Other: 1", "schlüssel"])
def test_a_token_with_other_characters_is_refused_unseen(
    job: Job, host: CodeHost, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library would quote it in its error."""
    job.environment |= {"GITHUB_TOKEN": token, "GITLAB_TOKEN": token}
    assert job.run(0.5) == 1
    told = "".join(capsys.readouterr())
    assert "characters that no token has" in told
    assert token not in told
    assert host.requests == []


def test_no_output_has_the_token(
    job: Job, host: CodeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even if the service or an error repeats it."""
    echo = json.dumps({"message": f"bad token {TOKEN}"}).encode()
    for status in (401, 403, 404, 422, 429, 500):
        host.troubles = [Trouble("GET", status=status, body=echo)] * 4
        job.run(0.5)
    host.troubles = [Trouble("GET", status=302, headers={"Location": f"//{TOKEN}:x:y/"})] * 4
    job.run(0.5)
    told = "".join(capsys.readouterr())
    assert "bad token ***" in told
    assert TOKEN not in told
    assert TOKEN not in repr(Api(host.url, TOKEN, "GitHub"))


def test_a_password_of_netrc_is_not_sent(
    job: Job, host: CodeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """requests prefers it to a header."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    job.run(0.5)
    assert {headers["Authorization"] for _, _, headers in host.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://github.example/api/v3", True),
        ("https://github.example/api/v3", False),
        ("http://127.0.0.1:80", False),
        ("http://localhost", False),
    ],
)
def test_a_token_on_plain_http_is_noted(url: str, expected: bool) -> None:
    """Some servers inside a company have no other; the loopback is this machine."""
    assert is_readable_on_the_way(url) is expected


@pytest.mark.parametrize("url", ["", "api.github.com", "ftp://host/", "https://"])
def test_an_api_that_is_no_url_is_refused(
    gitlab: Job, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before any request, with 4 as for every wrong input."""
    path = tmp_path / "run.json"
    path.write_text(file_of(record([entry(CASE, measured(CASE, 0.5))])))
    for name, value in {**gitlab.environment, "CI_API_V4_URL": url}.items():
        monkeypatch.setenv(name, value)
    assert main(["comment", str(path)]) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.json"], "No such file"),
        (["run.json", "--name=a b"], "--name 'a b': a name has at most 50"),
        (["run.json", "--name=a--b"], "--name 'a--b'"),
        (["run.json", "--name="], "given without a value"),
        (["event.json"], "is not a run record"),
    ],
)
def test_wrong_input_is_exit_code_4(
    github: Job,
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As of every command."""
    monkeypatch.chdir(github.folder)
    Path("run.json").write_text(file_of(record([entry(CASE, measured(CASE, 0.5))])))
    try:
        code = main(["comment", *arguments])
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 4
    assert words in capsys.readouterr().err


def test_a_damaged_event_is_exit_code_4(
    github: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the variable."""
    monkeypatch.chdir(github.folder)
    Path("event.json").write_text("{")
    Path("run.json").write_text(file_of(record([entry(CASE, measured(CASE, 0.5))])))
    for name, value in github.environment.items():
        monkeypatch.setenv(name, value)
    assert main(["comment", "run.json"]) == 4
    assert "GITHUB_EVENT_PATH" in capsys.readouterr().err


def test_outside_of_ci_there_is_nothing_to_comment_on(
    github: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and 0."""
    github.environment.clear()
    assert github.run(0.5) == 0
    assert "neither GitHub Actions nor GitLab CI/CD" in capsys.readouterr().out
