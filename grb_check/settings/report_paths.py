"""Files of the reports that a run writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from grb_check.cases.shards import Shard
from grb_check.datasets.places import expanded
from grb_check.errors import UsageError
from grb_check.files.outputs import check_output, is_stream, named_output
from grb_check.gate.baselines.baseline import Baseline
from grb_check.settings.raw_values import RawValues

KINDS: Final = ("json", "junit", "html", "markdown")
HISTORY_START: Final = b'{"kind":"run of a history"'
HISTORY: Final = "history"  # is appended to, by whole runs and by merges
OUTPUTS: Final = (*KINDS, HISTORY)


def read_outputs(raw: RawValues, shard: Shard | None) -> dict[str, Path]:
    """Return the paths of the reports that are wanted, by kind.

    A part of a run does not append to the history that an ini file names: the merge does.

    Args:
        raw: values of all options.
        shard: that runs; None for the whole run.

    Raises:
        UsageError: see `read_output`; or the command line names a history for a part of a run.
    """
    paths = {kind: read_output(raw, f"grb_{kind}") for kind in OUTPUTS}
    if shard is not None and paths.pop(HISTORY) and raw.is_given(f"grb_{HISTORY}"):
        raise UsageError(
            "--grb-history and --grb-shard: a part of a run has not all of its cases; leave out "
            "--grb-history and write the history with python -m grb_check merge --history=FILE"
        )
    return {kind: path for kind, path in paths.items() if path is not None}


def read_output(raw: RawValues, dest: str) -> Path | None:
    """Return the path of the output that an option names; None if it is not given.

    Raises:
        UsageError: it is empty, `-`, or a path that no file can have.
    """
    text = raw.one(dest)
    if text is None:
        return None
    return raw.path(dest, named_output(f"--{dest.replace('_', '-')}", text))


def named_paths(prefix: str, texts: Mapping[str, str | None]) -> dict[str, Path]:
    """Return the paths of the outputs that options of a command name; None is not wanted.

    Args:
        prefix: of the flags.
        texts: values by the rest of their flag.

    Raises:
        UsageError: see `named_output`.
    """
    return {
        name: expanded(named_output(f"{prefix}{name}", text))
        for name, text in texts.items()
        if text is not None
    }


def check_all(prefix: str, reports: Mapping[str, Path], baseline: Baseline | None) -> None:
    """Check that the outputs of a run can be written, none of them over another.

    Args:
        prefix: of the flags.
        reports: paths by the rest of their flag.
        baseline: of the run, which no report may replace; checked itself if the run writes it.

    Raises:
        UsageError: see `check_output`; or two paths are the same, or the history is another file.
    """
    kept = {} if baseline is None else {"baseline": baseline.path}
    paths, taken = {**kept, **reports}, dict[str, str]()
    for name, path in paths.items():
        if name in reports or (baseline is not None and baseline.writes):
            check_output(f"{prefix}{name}", path)
        if name == HISTORY:
            _check_history(f"{prefix}{name}", path)
        first = taken.setdefault(os.path.normcase(os.path.realpath(path)), name)
        if first != name and not (is_stream(path) and is_stream(paths[first])):
            raise UsageError(
                f"{prefix}{first} and {prefix}{name} are the same file, {str(path)!r}; give each "
                f"its own"
            )


def _check_history(flag: str, path: Path) -> None:
    """Refuse a file of another kind, which a line at its end would damage."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        start = file.read(1000).lstrip()
    if start and not start.startswith(HISTORY_START):
        raise UsageError(
            f"{flag} {str(path)!r} is there and is not a history; give the path of a history or of "
            f"a new file"
        )
