"""A pack: all black-box perturbations of a run in one file, the same on every machine.

A zip without compression, so that equal perturbations give equal bytes: each perturbation is a
file as in a store (`perturbation_bytes`), under a name made from what it is for, and
`grb_check.json` is the index, a typed JSON file with a digest of each of these files, so that its
own digest, which is that of the pack, covers them all.

A perturbation is found by what it was made for (`PerturbationRequest`), and by nothing that
depends on torch, threads or the processor. Only the index is read when a pack is opened; a
perturbation is read when it is asked for. Imports numpy and torch only when a perturbation is read
or written.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from grb_check import __version__
from grb_check.errors import GradientError, UsageError, count, one_line
from grb_check.files import typed_json
from grb_check.files.npz_file import HEADER, Unreadable, fixed_member
from grb_check.files.outputs import writing_whole
from grb_check.files.typed_json import FileKind

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from grb_check.attacks.threat import Perturbation, Threat


LICENCE: Final = (
    "The perturbations are derived from the data of the datasets that they are for, whose licences "
    "hold for them."
)
ABOUT: Final = "perturbations of grb_check: pytest --grb-pack=FILE takes them from here"
AGAIN: Final = "copy the file again, or make it again with python -m grb_check pack RUN.json"
_DAMAGE: Final = (
    *(zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError, MemoryError),
    *(
        Unreadable,
        NotImplementedError,
        RuntimeError,
    ),  # a compression that zipfile lacks, an encrypted member
)
SHIPPED: Final = Path(__file__).parent / "shipped" / "synthetic-cora.npz"


@dataclass(frozen=True, order=True)
class PerturbationRequest:
    """The case, repeat and threat that a perturbation is made for.

    Attributes:
        fingerprint: of the dataset.
        difficulty: whose test nodes are the targets.
        scenario: of the attack.
        attack: its name without modifiers, on which its randomness depends.
        description: of the attack: its version and settings.
        threat: its description.
        seed: of the repeat.
        dataset: name, for messages; the fingerprint decides.
    """

    fingerprint: str
    difficulty: str
    scenario: str
    attack: str
    description: str
    threat: str
    seed: int
    dataset: str = field(compare=False)

    @property
    def cell(self) -> str:
        """`dataset/difficulty/scenario/attack`."""
        return f"{self.dataset}/{self.difficulty}/{self.scenario}/{self.attack}"


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of the index: every field known, no other accepted."""


class Packed(_Part, frozen=True):
    """One perturbation of the index.

    Attributes:
        wanted: what it was made for.
        digest: SHA-256 of its file; empty if there is none.
        no_gradient: why there is no perturbation: the surrogate gives the attack no gradient; empty
            if there is one.
    """

    wanted: PerturbationRequest
    digest: str
    no_gradient: str


class Index(_Part, frozen=True):
    """The content of `grb_check.json`."""

    about: str
    licence: str
    perturbations: tuple[Packed, ...]


KIND: Final = FileKind(name="pack", type=Index, format=2, remedy=AGAIN)


class Pack:
    """An open pack.

    Args:
        path: of the file.
        index: of the file.

    Attributes:
        path: absolute.
        digest: of the index, and thus of all perturbations.
        perturbations: all of them, by what they were made for.
    """

    def __init__(self, path: Path, index: Index) -> None:
        self.path = path.absolute()
        self.digest = typed_json.digest_of(index)
        self.perturbations: Mapping[PerturbationRequest, Packed] = {
            packed.wanted: packed for packed in index.perturbations
        }

    @property
    def content(self) -> str:
        """The contents of the pack, in words."""
        return count(len(self.perturbations), "perturbation")

    def check(self, request: PerturbationRequest, threat: Threat) -> bool:
        """Whether the pack has what is wanted under this threat, which `request` describes.

        Raises:
            UsageError: the pack has it, and it is damaged.
        """
        if request not in self.perturbations:
            return False
        packed = self.perturbations[request]
        if not packed.no_gradient:
            self._content(packed)
        return True

    def perturbation(
        self, request: PerturbationRequest, graph: Data, threat: Threat
    ) -> Perturbation | None:
        """Return what is wanted, verified, if the pack has it.

        Args:
            request: what it is made for.
            graph: clean.
            threat: that it must keep to.

        Raises:
            BudgetError: it does not.
            GradientError: there is none, because the surrogate gives the attack no gradient.
            UsageError: the file is damaged or gone.
        """
        if request not in self.perturbations:
            return None
        packed = self.perturbations[request]
        if packed.no_gradient:
            raise GradientError(packed.no_gradient)
        # Imported for a perturbation; opening a pack loads neither numpy nor torch.
        from grb_check.attacks.referee import verify
        from grb_check.store.perturbation_bytes import from_bytes

        content = self._content(packed)
        with _reading(self.path):
            result = from_bytes(content)
        verify(result, graph, threat)
        return result

    def instead(self, request: PerturbationRequest) -> str:
        """Return what the pack has instead of a perturbation that it lacks, as a clause."""
        known = list(self.perturbations)
        alike = [other for other in known if other.cell == request.cell]
        same = [name for name in alike if name.fingerprint == request.fingerprint]
        described = [other for other in same if other.description == request.description]
        seeds = sorted(text.seed + 1 for text in described if text.threat == request.threat)
        if seeds:
            return f"it has repeats {', '.join(map(str, seeds))}"
        if described:
            threats = dict.fromkeys(text.threat for text in described)
            return f"it has other budgets: {', '.join(threats)} instead of {request.threat}"
        if same:
            others = dict.fromkeys(other.description for other in same)
            return f"it has {', '.join(others)} instead of {request.description}"
        if alike:
            return (
                f"it has this case for other data of the name {request.dataset}, with fingerprint "
                f"{alike[0].fingerprint[:16]} instead of {request.fingerprint[:16]}"
            )
        cells = sorted({other.cell for other in known})
        more = f" and {len(cells) - 5} more" if cells[5:] else ""
        what = count(len(known), "perturbation")
        return f"it has {what} of {', '.join(cells[:5])}{more}" if known else "it is empty"

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        """The file, whose directory takes long to read again for each perturbation."""
        return zipfile.ZipFile(self.path)

    def _content(self, packed: Packed) -> bytes:
        """The file of a perturbation, whose digest is right."""
        name = _member(packed.wanted)
        with _reading(self.path):
            content = _stored(self._archive, name)
            if hashlib.sha256(content).hexdigest() != packed.digest:
                raise ValueError(f"{name} does not match its digest")
        return content


def read_pack(path: Path) -> Pack:
    """Open a pack, of which the index is read.

    Raises:
        UsageError: the file is missing, damaged, of another version or no pack.
    """
    with _reading(path), zipfile.ZipFile(path) as archive:
        raw = _stored(archive, HEADER)
    return Pack(path, typed_json.decode(KIND, raw, f"pack {str(path)!r}"))


def write_pack(
    path: Path,
    perturbations: Iterable[tuple[PerturbationRequest, Perturbation | GradientError]],
    licence: str = LICENCE,
) -> Pack:
    """Write perturbations, one at a time, to a file that appears whole or not at all.

    Args:
        path: of the file.
        perturbations: what each was made for, and the perturbation, or the error of the attack.
        licence: one line about the perturbations.

    Raises:
        OSError: it cannot be written.
    """
    from grb_check.store.perturbation_bytes import to_bytes  # imports torch

    packed: dict[PerturbationRequest, Packed] = {}
    with writing_whole(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for requested, result in perturbations:
            if requested in packed:
                continue
            if isinstance(result, GradientError):
                packed[requested] = Packed(wanted=requested, digest="", no_gradient=str(result))
                continue
            content = to_bytes(result)
            archive.writestr(fixed_member(_member(requested)), content)
            digest = hashlib.sha256(content).hexdigest()
            packed[requested] = Packed(wanted=requested, digest=digest, no_gradient="")
        index = Index(about=ABOUT, licence=licence, perturbations=tuple(packed.values()))
        archive.writestr(fixed_member(HEADER), typed_json.encode(KIND, index, __version__))
    return Pack(path, index)


def _member(request: PerturbationRequest) -> str:
    """The name of the file of a perturbation, which the name of the data is no part of."""
    parts = [getattr(request, part.name) for part in fields(request) if part.compare]
    return f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}.npz"


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    """The content of a member; that of a compressed one could be of any size."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, unlike those of a pack")
    return archive.read(name)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Make what goes wrong while a pack is read an error that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise UsageError(f"pack {str(path)!r} cannot be read: {reason}; {AGAIN}") from None
    except _DAMAGE as error:
        raise UsageError(
            f"pack {str(path)!r} is damaged, or is not a pack of grb_check: {one_line(error)}; "
            f"{AGAIN}"
        ) from None


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


def lacking(pack: Pack, requests: Mapping[str, Sequence[PerturbationRequest]]) -> UsageError:
    """Return the error that a pack lacks perturbations.

    Args:
        pack: that lacks them.
        requests: by the id of the case that needs them; at least one.
    """
    name, first = next((name, case_requests[0]) for name, case_requests in requests.items())
    what, cases = (
        count(sum(map(len, requests.values())), "perturbation"),
        count(len(requests), "case"),
    )
    also = "" if f"/{first.attack}" in name else f"{first.cell}, "
    return UsageError(
        f"pack {str(pack.path)!r} lacks {what} that {cases} may need: {name} needs {also}repeat "
        f"{first.seed + 1}, but {pack.instead(first)}; leave such cases out, or make a pack of a "
        f"run that has them: python -m grb_check pack RUN.json"
    )
