"""Values of options and ini values as they were given, of the right type."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from grb_check.datasets.source import expanded
from grb_check.errors import UsageError
from grb_check.files.outputs import check_output, is_stream, named_output
from grb_check.gate.baselines.baseline import Baseline
from grb_check.settings.options import COMMAND_LINE, DEFAULT, INI, MISSING, OPTIONS, Option

_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@]+@")  # of a URL
_KINDS: Final = {
    "string": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
}
_NUMBERS: Final = {"int": (int,), "float": (int, float)}
KINDS: Final = ("json", "junit", "html", "markdown")


@dataclass(frozen=True)
class RawValues:
    """Values by the name of their option, each with its origin.

    Attributes:
        values: option -> value (`MISSING` if not given) and origin.
        rootdir: pytest's; relative paths of the ini file start there.
        cwd: working directory; relative paths of the command line start there.
    """

    values: Mapping[str, tuple[Any, str]]
    rootdir: Path
    cwd: Path

    @property
    def origins(self) -> dict[str, str]:
        """Origin of the value of each option."""
        return {dest: origin for dest, (_, origin) in self.values.items()}

    @property
    def given(self) -> dict[str, str]:
        """Values as they were given, without passwords; empty for a switch that is on."""
        result = {}
        for dest, (value, _) in self.values.items():
            if value is not MISSING and value is not False:
                text = "" if value is True else ", ".join(self.texts(dest))
                result[dest] = _CREDENTIALS.sub("", text)
        return result

    def without(self, dests: Iterable[str]) -> RawValues:
        """Return the values without those of some options."""
        missing = dict.fromkeys(dests, (MISSING, DEFAULT))
        return replace(self, values={**self.values, **missing})

    def one(self, dest: str, default: Any = None) -> Any:
        """Return the value, or the default if none is given."""
        value = self.values[dest][0]
        return default if value is MISSING else value

    def is_given(self, dest: str) -> bool:
        """Whether the command line has the option."""
        return self.values[dest][1] == COMMAND_LINE

    def is_set(self, dest: str) -> bool:
        """Whether a switch is on."""
        return self.one(dest) is True

    def texts(self, dest: str) -> list[str]:
        """Return the values as they were given."""
        value = self.one(dest, ())
        return list(value) if isinstance(value, (list, tuple)) else [str(value)]

    def filled(self, dest: str) -> list[str]:
        """Return the values as `texts` does.

        Raises:
            UsageError: one on the command line is empty.
        """
        texts = self.texts(dest)
        if self.is_given(dest) and not all(split_at_commas([text]) for text in texts):
            raise self.empty(dest)
        return texts

    def many(self, dest: str) -> list[str]:
        """Return the values, of which each may be a list with commas.

        Raises:
            UsageError: one on the command line is empty.
        """
        return split_at_commas(self.filled(dest))

    def path(self, dest: str, text: str) -> Path:
        """Return a path that this option gives.

        Raises:
            UsageError: it is empty, or no file can have that name.
        """
        if not text.strip():
            raise self.empty(dest)
        path = self.base(dest) / expanded(text)
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            pass  # it may be written later, or the option asks for it
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{self.name(dest)} {reprlib.repr(text)} cannot be used as a path "
                f"({error.args[-1]}); give another"
            ) from None
        return path

    def maybe_path(self, dest: str) -> Path | None:
        """Return the path that this option gives; None if it is not given."""
        text = self.one(dest)
        return None if text is None else self.path(dest, text)

    def base(self, dest: str) -> Path:
        """Return the directory where relative paths of this option start."""
        return self.cwd if self.is_given(dest) else self.rootdir

    def name(self, dest: str) -> str:
        """Return the name of an option for messages: its flag, or its name in the ini file."""
        option = next(candidate for candidate in OPTIONS if candidate.dest == dest)
        return option.flag if option.flag and self.values[dest][1] != INI else option.ini

    def empty(self, dest: str) -> UsageError:
        """Return the error of an option that has no value."""
        return UsageError(f"{self.name(dest)} was given without a value; give one or leave it out")


def read_raw(lookup: Callable[[Option], tuple[Any, str]], rootdir: Path, cwd: Path) -> RawValues:
    """Return all values.

    Args:
        lookup: raw value of an option and its origin.
        rootdir: pytest's.
        cwd: working directory.

    Raises:
        UsageError: a value has another type than its option.
    """
    values = {option.dest: lookup(option) for option in OPTIONS}
    for option in OPTIONS:
        value, _ = values[option.dest]
        if value is not MISSING and not _fits(value, option):
            kind = "a string or a list of strings" if option.repeatable else _KINDS[option.type]
            raise UsageError(
                f"{option.ini} = {reprlib.repr(value)} must be {kind}; see "
                f"{option.flag or option.ini} in pytest --help"
            )
    return RawValues(values, rootdir, cwd)


def split_at_commas(texts: Sequence[str]) -> list[str]:
    """Return the pieces of lists with commas, without blanks around them and without empty ones."""
    pieces = [piece.strip() for text in texts for piece in text.split(",")]
    return [piece for piece in pieces if piece]


def _fits(value: object, option: Option) -> bool:
    """Whether a value is of the option's type; texts stand for numbers on the command line."""
    if option.repeatable:
        texts = value if isinstance(value, list) else [value]
        return all(isinstance(text, str) for text in texts)
    if isinstance(value, bool) or option.type == "bool":
        return isinstance(value, bool) and option.type == "bool"
    return isinstance(value, (str, *_NUMBERS.get(option.type, ())))


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


def check_all(prefix: str, reports: Mapping[str, Path | str], baseline: Baseline | None) -> None:
    """Check that the outputs of a run can be written, none of them over another.

    Args:
        prefix: of the flags.
        reports: paths by the rest of their flag.
        baseline: of the run, which no report may replace; checked itself if the run writes it.

    Raises:
        UsageError: see `check_output`; or two paths are the same.
    """
    saved = {} if baseline is None else {"baseline": baseline.path}
    paths = {name: Path(path) for name, path in {**saved, **reports}.items()}
    taken: dict[str, str] = {}
    for name, path in paths.items():
        if name in reports or (baseline is not None and baseline.writes):
            check_output(f"{prefix}{name}", path)
        first = taken.setdefault(os.path.normcase(os.path.realpath(path)), name)
        if first != name and not (is_stream(path) and is_stream(paths[first])):
            raise UsageError(
                f"{prefix}{first} and {prefix}{name} are the same file, {str(path)!r}; give each "
                f"its own"
            )
