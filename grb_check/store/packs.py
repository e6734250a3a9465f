"""Open a pack in any process, and say what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from grb_check.errors import UsageError, count
from grb_check.store.pack import Pack, Wanted, read_pack

SHIPPED: Final = Path(__file__).parent / "shipped" / "synthetic-cora.npz"


@dataclass(frozen=True)
class PackPlace:
    """The place of a pack, of builtin types, so that another process opens the same.

    Attributes:
        path: absolute.
        digest: that the file has to have.
    """

    path: str
    digest: str

    @classmethod
    def of(cls, pack: Pack) -> PackPlace:
        """Return the place of an open pack."""
        return cls(str(pack.path), pack.digest)

    def open(self) -> Pack:
        """Open the pack, see `open_pack`."""
        return open_pack(Path(self.path), self.digest)


def open_pack(path: Path, digest: str = "") -> Pack:
    """Open a file of perturbations, whose names are read.

    Args:
        path: of the file.
        digest: that it has to have, as in the process that opened it first; empty for any.

    Raises:
        UsageError: the file is missing, damaged, of another version or no pack; or another one.
    """
    pack = read_pack(path)
    if digest and pack.digest != digest:
        raise UsageError(
            f"pack {str(path)!r} has the digest {pack.digest[:16]}, but the run uses the one with "
            f"{digest[:16]}; copy that one to this path on every machine"
        )
    return pack


@cache
def shipped_pack() -> Pack:
    """Return the perturbations of the suite `smoke` on the bundled graph, which come along.

    `python -m benchmarks.shipped` makes them.
    """
    return read_pack(SHIPPED)


def lacking(pack: Pack, wanted: Mapping[str, Sequence[Wanted]]) -> UsageError:
    """Return the error that a pack lacks perturbations.

    Args:
        pack: that lacks them.
        wanted: by the id of the case that needs them; at least one.
    """
    name, first = next((name, each[0]) for name, each in wanted.items())
    what, cases = count(sum(map(len, wanted.values())), "perturbation"), count(len(wanted), "case")
    also = "" if f"/{first.attack}" in name else f"{first.cell}, "
    return UsageError(
        f"pack {str(pack.path)!r} lacks {what} that {cases} may need: {name} needs {also}repeat "
        f"{first.seed + 1}, but {pack.instead(first)}; leave such cases out, or make a pack of a "
        f"run that has them: python -m grb_check pack RUN.json"
    )
