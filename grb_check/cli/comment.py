"""Comment a run on its pull request (GitHub) or merge request (GitLab), when verdicts change.

The first comment is written when a run fails. Later runs edit it, and only if a verdict is other
than in it: a figure that changed, or a run that passes on a pull request without a comment, is
silent. The environment of the CI job names the service, the pull request and the token.

The gate is the test run; a comment is a convenience. Exit codes: 0 also where there is nothing to
comment on, where the token of a fork may not write, and, with a warning, where the service did not
answer or asked for too much patience, since the next run comments; 1 if the service refused, as
without a token or permission, so that a wrong setting is seen; 4 if the command or the record is
wrong.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from grb_check.cli.code_hosts import github, gitlab
from grb_check.cli.code_hosts.api import Denied, is_readable_on_the_way
from grb_check.cli.code_hosts.comments import Done, NoPullRequest, publish
from grb_check.cli.console import complain, note, say, warn
from grb_check.cli.exit_codes import FAILED, OK
from grb_check.datasets.download.requesting import USUAL, Broken, Refused, Retry, persist
from grb_check.datasets.download.sources import shown_url
from grb_check.reports.comment import DEFAULT_NAME, check_name
from grb_check.reports.digest import Digest, digest
from grb_check.reports.record_file import read

WORDS: Final[Mapping[Done, str]] = {
    "nothing": "nothing failed, and there is no comment to update",
    "unchanged": "the verdicts are those of the last comment",
    "created": "commented",
    "updated": "updated the comment",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("record", metavar="RUN.json", help="file that --grb-json or merge wrote")
    parser.add_argument(
        "--name",
        metavar="NAME",
        default=DEFAULT_NAME,
        help="of the comment: give each job that comments on a pull request its own "
        f"(default: {DEFAULT_NAME})",
    )


def run(options: argparse.Namespace) -> int:
    """Comment, and return an exit code."""
    name = check_name(options.name)
    found = digest(read(Path(options.record)))
    return comment(found, name, os.environ, USUAL)


def comment(found: Digest, name: str, environment: Mapping[str, str], retry: Retry) -> int:
    """Comment on a run.

    Args:
        found: the run.
        name: of the comment.
        environment: of the CI job.
        retry: of requests that fail.

    Raises:
        UsageError: the environment of the job is not what its service sets.
    """
    if not {"GITHUB_REPOSITORY", "CI_API_V4_URL"} & environment.keys():
        say("no comment: this is a job of neither GitHub Actions nor GitLab CI/CD")
        return OK
    host = gitlab if "CI_API_V4_URL" in environment else github
    if is_readable_on_the_way(url := environment.get(host.API_URL, "")):
        note(f"{host.API_URL} is {shown_url(url)}: on plain http the token can be read on the way")

    def once() -> str:
        pull_request = host.pull_request_of(environment, retry)
        return f"{pull_request.name}: {WORDS[publish(found, pull_request, name)]}"

    try:
        say(persist(once, retry))
    except NoPullRequest as error:
        say(f"no comment: {error}")
    except Broken as error:
        warn(f"no comment: {error}; the next run tries again", environment)
    except Denied as error:
        if host.is_read_only(environment):
            say(f"no comment: the token of a fork's job cannot write ({error})")
            return OK
        complain(f"no comment: {error}; {host.ADVICE}")
        return FAILED
    except Refused as error:
        complain(f"no comment: {error}")
        return FAILED
    return OK
