"""Files of the reports that a run writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from grb_check.errors import UsageError
from grb_check.files.whole import check_writable
from grb_check.settings.raw_values import RawValues


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Path of each report; None if it is not wanted."""

    json: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    markdown: Path | None = None

    def prepare(self) -> None:
        """Check that all can be written, before any work.

        Raises:
            UsageError: a path is a directory or cannot be written to, or two are the same.
        """
        check_all("--grb-", self.paths)

    @property
    def paths(self) -> dict[str, Path]:
        """The paths of the reports that are wanted, by kind."""
        every = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: path for name, path in every.items() if path is not None}

    def refuse(self, kept: Path, prefix: str) -> None:
        """Refuse a report that would overwrite the baseline.

        Args:
            kept: file of the baseline.
            prefix: of the flags.

        Raises:
            UsageError: a report would be written over it.
        """
        for each in fields(self):
            path = getattr(self, each.name)
            if path is not None and path.resolve() == kept.resolve():
                raise UsageError(
                    f"{prefix}{each.name} {str(path)!r} would be written over the baseline; give "
                    f"it another path"
                )


def read_outputs(raw: RawValues) -> Outputs:
    """Return the paths that the options give."""
    return Outputs(**{each.name: raw.maybe_path(f"grb_{each.name}") for each in fields(Outputs)})


def check_all(prefix: str, paths: Mapping[str, Path]) -> None:
    """Check that several files can be written, none of them over another.

    Args:
        prefix: of the flags.
        paths: by the rest of their flag.

    Raises:
        UsageError: see `check_writable`; or two paths are the same.
    """
    taken: dict[Path, str] = {}
    for name, path in paths.items():
        check_writable(f"{prefix}{name}", path)
        first = taken.setdefault(path.resolve(), name)
        if first != name:
            raise UsageError(
                f"{prefix}{first} and {prefix}{name} are the same file, {str(path)!r}; give each "
                f"its own"
            )
