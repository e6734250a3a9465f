"""The commit of a working tree, as CI names it or git tells it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VARIABLES: Final = ("GITHUB_SHA", "CI_COMMIT_SHA")  # of GitHub Actions and of GitLab CI
_HASH: Final = re.compile(r"[0-9a-f]{7,64}")
_SECONDS: Final = 20


@dataclass(frozen=True)
class Commit:
    """A commit: its hash, empty outside a repository, and whether tracked files were changed."""

    hash: str
    dirty: bool


def commit_of(folder: Path, apart_from: Path | None = None) -> Commit:
    """Return the commit of a directory.

    Args:
        folder: in the working tree.
        apart_from: a file whose changes do not count, without symbolic links.
    """
    of_ci = (os.environ.get(name, "").strip().lower() for name in VARIABLES)
    found = next((each for each in of_ci if _HASH.fullmatch(each)), "")
    found = found or git_output(folder, "rev-parse", "--verify", "HEAD").strip()
    if not _HASH.fullmatch(found):
        return Commit("", dirty=False)
    top, left_out = git_output(folder, "rev-parse", "--show-toplevel").rstrip("\n"), []
    if apart_from is not None and top and apart_from.is_relative_to(top):  # or git fails
        left_out = [f":(top,exclude,literal){apart_from.relative_to(top).as_posix()}"]
    changed = git_output(folder, "diff", "--name-only", "HEAD", "--", ":/", *left_out)
    return Commit(found, dirty=bool(changed.strip()))


def git_output(folder: Path, *arguments: str) -> str:
    """Return the output of a command of git; empty if it failed or there is no git."""
    command: Sequence[str] = ("git", "-C", str(folder), "--no-optional-locks", *arguments)
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
