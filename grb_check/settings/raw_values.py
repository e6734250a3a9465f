"""What the options and ini values hold before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grb_check.datasets.places import expanded
from grb_check.errors import UsageError
from grb_check.settings.option_table import OPTIONS, Option

# Origins of values, and what stands for a value that is not given.
COMMAND_LINE: Final = "command line"
INI: Final = "ini"
DEFAULT: Final = "default"
MISSING: Final = object()


@dataclass(frozen=True)
class RawValues:
    """Values by the name of their option, with where each is from.

    Attributes:
        values: option -> value (`MISSING` where not given) and origin.
        rootdir: pytest's; relative paths of the ini file start there.
        here: the working folder; relative paths of the command line start there.
    """

    values: Mapping[str, tuple[Any, str]]
    rootdir: Path
    here: Path

    @property
    def origins(self) -> dict[str, str]:
        return {dest: origin for dest, (_, origin) in self.values.items()}

    def one(self, dest: str, default: Any = None) -> Any:
        """The value, or the default where none is given."""
        value = self.values[dest][0]
        return default if value is MISSING else value

    def texts(self, dest: str) -> list[str]:
        """The values as they were given; none where none is."""
        value = self.one(dest, ())
        return [value] if isinstance(value, str) else list(value)

    def filled(self, dest: str) -> list[str]:
        """As `texts`.

        Raises:
            UsageError: one on the command line is empty.
        """
        texts = self.texts(dest)
        on_command_line = self.values[dest][1] == COMMAND_LINE
        if on_command_line and not all(split_at_commas([text]) for text in texts):
            flag = f"--{dest.replace('_', '-')}"
            raise UsageError(f"{flag} was given without a value; give one or leave it out")
        return texts

    def many(self, dest: str) -> list[str]:
        """The values, which may be lists with commas.

        Raises:
            UsageError: one on the command line is empty.
        """
        return split_at_commas(self.filled(dest))

    def path(self, dest: str, text: str) -> Path:
        """A path that this option gives."""
        return self.base(dest) / expanded(text)

    def maybe_path(self, dest: str) -> Path | None:
        """The path that this option gives; None where it is not given."""
        text = self.one(dest)
        return None if text is None else self.path(dest, text)

    def base(self, dest: str) -> Path:
        """Where relative paths of this option start."""
        return self.here if self.values[dest][1] == COMMAND_LINE else self.rootdir


def read_raw(lookup: Callable[[Option], tuple[Any, str]], rootdir: Path, here: Path) -> RawValues:
    """All values; `lookup` gives the raw value of an option and its origin."""
    return RawValues({option.dest: lookup(option) for option in OPTIONS}, rootdir, here)


def split_at_commas(texts: Sequence[str]) -> list[str]:
    """The pieces of lists with commas, without blanks around them and without empty ones."""
    pieces = [piece.strip() for text in texts for piece in text.split(",")]
    return [piece for piece in pieces if piece]
