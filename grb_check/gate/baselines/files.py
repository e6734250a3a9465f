"""The baseline file: figures for review, and which targets were right in each repeat.

A typed JSON file, see `typed_json`. `cases` has, for each case, the figures and what they depend
on, one field a line. `bits` has, for each case, the base64 of the zlib-compressed packed bits: for
each repeat the targets that were right before the attack, then those right after it
(`numpy.packbits`, first target first). Figures are formed from the bits, and checked against them
when the file is read.
"""

from __future__ import annotations

import base64
import statistics
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from grb_check.cases.metrics import relative_drop
from grb_check.cases.outcomes import Outcome
from grb_check.errors import UsageError
from grb_check.files.typed_json import FileKind, digest_of, encode, read
from grb_check.files.whole import write_whole

ABOUT: Final = (
    "baseline of grb_check: pytest --grb-baseline=FILE compares, --grb-update-baseline writes"
)
WANTED: Final = "take it from version control, or write it again with --grb-update-baseline"
MAX_BYTES: Final = 100_000_000  # of the bits of one case, so that a damaged file cannot fill memory
Count = Annotated[int, msgspec.Meta(ge=1, le=8 * MAX_BYTES)]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One case of the run that is the baseline.

    Attributes:
        dataset: fingerprint of the data.
        attack: its description with version and settings; empty if unknown.
        threat: description of the threat.
        targets: number of targets.
        seconds: that the case took, without the victim's training.
        before: packed bits of the targets right on the clean graph, in each repeat.
        after: packed bits of the targets right on the attacked graph, in each repeat.
        pretrained: whether nothing was trained, so that repeats differ in the attack alone.
        weights: digest of the victim of each repeat.
        perturbations: digest of the perturbation of each repeat.
    """

    dataset: str
    attack: str
    threat: str
    targets: int
    seconds: float
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    pretrained: bool
    weights: tuple[str, ...]
    perturbations: tuple[str, ...]

    @property
    def repeats(self) -> int:
        """Number of repeats."""
        return len(self.after)

    @property
    def clean(self) -> tuple[float, ...]:
        """Accuracy before the attack in each repeat, in [0, 1]."""
        return tuple(_ones(bits) / self.targets for bits in self.before)

    @property
    def attacked(self) -> tuple[float, ...]:
        """Accuracy after the attack in each repeat, in [0, 1]."""
        return tuple(_ones(bits) / self.targets for bits in self.after)


class Figures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case as the file shows it; what has a value for each repeat is separated by blanks."""

    clean: str
    attacked: str
    drop: str
    attacked_by_repeat: str
    repeats: Count
    targets: Count
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    dataset: str
    attack: str
    threat: str
    pretrained: bool
    weights: str
    perturbations: str


class Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the file; the keys of `cases` and `bits` are case ids."""

    about: str
    versions: dict[str, str]
    cases: dict[str, Figures]
    bits: dict[str, str]


BASELINE: Final = FileKind(name="baseline", type=Content, format=4, wanted=WANTED)


class Saved(NamedTuple):
    """A baseline file as it was read.

    Attributes:
        entries: by the id of their case.
        versions: of the packages that it was measured with, by name.
        digest: of the content.
    """

    entries: Mapping[str, Entry]
    versions: Mapping[str, str]
    digest: str


def entry_of(outcome: Outcome) -> Entry:
    """Return the entry of an outcome."""
    repeats = outcome.repeats
    spent = sum(each.seconds - each.training_seconds for each in repeats)
    return Entry(
        dataset=outcome.dataset[:16],
        attack=outcome.attack,
        threat=outcome.threat,
        targets=outcome.targets,
        seconds=round(spent, 1),
        before=tuple(each.victim.right_before for each in repeats),
        after=tuple(each.victim.right_after for each in repeats),
        pretrained=all(each.pretrained for each in repeats),
        weights=tuple(each.weights for each in repeats),
        perturbations=tuple(each.perturbation for each in repeats),
    )


def write_baseline(path: Path, entries: Mapping[str, Entry], versions: Mapping[str, str]) -> None:
    """Write the whole file in one step.

    Args:
        path: of the file.
        entries: by the id of the case.
        versions: of the packages that the run was made with, grb_check among them.
    """
    ordered = sorted(entries)
    content = Content(
        about=ABOUT,
        versions=dict(versions),
        cases={name: _figures(entries[name]) for name in ordered},
        bits={name: _packed(entries[name]) for name in ordered},
    )
    write_whole(path, encode(BASELINE, content, versions["grb_check"]).encode())


def read_baseline(path: Path) -> Saved:
    """Read a file.

    Raises:
        UsageError: it is not a baseline, is of another format, or its bits and figures differ.
    """
    content = read(BASELINE, path)
    try:
        if set(content.cases) != set(content.bits):
            odd = min(set(content.cases) ^ set(content.bits))
            raise ValueError(f"{odd!r} is in cases or in bits alone")
        entries = {
            name: _entry(name, figures, content.bits[name])
            for name, figures in content.cases.items()
        }
    except ValueError as error:
        raise UsageError(f"baseline {str(path)!r} is damaged: {error}; {WANTED}") from None
    return Saved(entries, content.versions, digest_of(content))


def _figures(entry: Entry) -> Figures:
    drops = [relative_drop(*pair) for pair in zip(entry.clean, entry.attacked, strict=True)]
    spread = f" +- {100 * statistics.stdev(drops):.1f}" if len(drops) > 1 else ""
    return Figures(
        clean=f"{statistics.fmean(entry.clean):.2%}",
        attacked=f"{statistics.fmean(entry.attacked):.2%}",
        drop=f"{statistics.fmean(drops):.1%}{spread}",
        attacked_by_repeat=" ".join(f"{100 * each:.2f}" for each in entry.attacked),
        repeats=entry.repeats,
        targets=entry.targets,
        seconds=entry.seconds,
        dataset=entry.dataset,
        attack=entry.attack,
        threat=entry.threat,
        pretrained=entry.pretrained,
        weights=" ".join(entry.weights),
        perturbations=" ".join(entry.perturbations),
    )


def _packed(entry: Entry) -> str:
    pairs = zip(entry.before, entry.after, strict=True)
    return base64.b64encode(zlib.compress(b"".join(a + b for a, b in pairs), 9)).decode()


def _entry(name: str, figures: Figures, packed: str) -> Entry:
    """Return an entry whose figures are those of its bits; raises ValueError if they differ."""
    try:
        before, after = _unpacked(packed, figures.repeats, figures.targets)
    except (ValueError, zlib.error) as error:  # binascii.Error is a ValueError
        raise ValueError(f"bits of {name!r}: {error}") from None
    entry = Entry(
        dataset=figures.dataset,
        attack=figures.attack,
        threat=figures.threat,
        targets=figures.targets,
        seconds=figures.seconds,
        before=before,
        after=after,
        pretrained=figures.pretrained,
        weights=tuple(figures.weights.split(" ")),
        perturbations=tuple(figures.perturbations.split(" ")),
    )
    for field in ("weights", "perturbations"):
        if len(getattr(entry, field)) != entry.repeats:
            raise ValueError(f"{field} of {name!r} must have one digest for each repeat")
    from_bits = _figures(entry)
    for field in Figures.__struct_fields__:
        found, formed = getattr(figures, field), getattr(from_bits, field)
        if found != formed:
            raise ValueError(f"{field} of {name!r} is {found!r}, and its bits give {formed!r}")
    return entry


def _unpacked(text: str, repeats: int, targets: int) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    width = (targets + 7) // 8
    size = 2 * repeats * width
    if size > MAX_BYTES:
        raise ValueError(f"{repeats} repeats of {targets} targets are more than {MAX_BYTES} bytes")
    content = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    if len(content) != size:
        raise ValueError(f"not {repeats} repeats of {targets} targets")
    parts = [content[start : start + width] for start in range(0, size, width)]
    padding = (1 << 8 * width - targets) - 1  # the last bits of the last byte
    if any(part[-1] & padding for part in parts):
        raise ValueError(f"bits of more than {targets} targets")
    return tuple(parts[::2]), tuple(parts[1::2])


def _ones(bits: bytes) -> int:
    return int.from_bytes(bits, "big").bit_count()
