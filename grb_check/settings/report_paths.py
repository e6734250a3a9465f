"""Files of the reports that a run writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from grb_check.datasets.places import expanded
from grb_check.errors import UsageError
from grb_check.files.outputs import check_output, is_stream, named_output
from grb_check.gate.baselines.baseline import Baseline
from grb_check.settings.raw_values import RawValues

KINDS: Final = ("json", "junit", "html", "markdown")


def read_outputs(raw: RawValues) -> dict[str, Path]:
    """Return the paths of the reports that are wanted, by kind.

    Raises:
        UsageError: see `read_output`.
    """
    paths = {kind: read_output(raw, f"grb_{kind}") for kind in KINDS}
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
        UsageError: see `check_output`; or two paths are the same.
    """
    kept = {} if baseline is None else {"baseline": baseline.path}
    paths, taken = {**kept, **reports}, dict[str, str]()
    for name, path in paths.items():
        if name in reports or (baseline is not None and baseline.writes):
            check_output(f"{prefix}{name}", path)
        first = taken.setdefault(os.path.normcase(os.path.realpath(path)), name)
        if first != name and not (is_stream(path) and is_stream(paths[first])):
            raise UsageError(
                f"{prefix}{first} and {prefix}{name} are the same file, {str(path)!r}; give each "
                f"its own"
            )
