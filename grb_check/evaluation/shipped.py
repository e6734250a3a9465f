"""Accuracies of the references in the suite `smoke` on the bundled graph, which come along.

Twenty trainings of each reference, measured once by `python -m benchmarks.shipped`, so that the
first run trains and attacks no model but the user's. They are used where data, attack, threat,
training and the reference itself are of the versions that they were measured with. Other versions
of torch round otherwise, which trains other models of the same kind: mean and spread stay.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from grb_check import __version__
from grb_check.cases.outcomes import Reference
from grb_check.files.outputs import write_output
from grb_check.files.typed_json import FileKind, encode, read

SHIPPED_REFERENCES: Final = Path(__file__).parent / "shipped" / "synthetic-cora.json"


class ReferencesContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file.

    Attributes:
        about: lines on how it was made.
        environment: versions that the models were trained with, for people.
        cases: what a case is found by, see `store_keys.shipped_key` -> kind -> its trainings.
    """

    about: tuple[str, ...]
    environment: dict[str, str]
    cases: dict[str, dict[str, Reference]]


KIND: Final = FileKind(
    name="references",
    type=ReferencesContent,
    format=1,
    remedy="install grb-check again, or make it again with python -m benchmarks.shipped",
)


@cache
def shipped_references() -> dict[str, dict[str, Reference]]:
    """Return the references by the key of their case."""
    return read(KIND, SHIPPED_REFERENCES).cases


def write_references(content: ReferencesContent, path: Path) -> None:
    """Write the file."""
    write_output(path, encode(KIND, content, __version__).encode())
