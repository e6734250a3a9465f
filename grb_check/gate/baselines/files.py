"""The baseline file: figures that people review, and which targets were right in each repeat.

Format 2 is JSON of three objects. `about` says what it is and with which versions it was made.
`cases` has, for each case, the figures and what they depend on, one field a line and cases in
order, so that a change of one case touches its lines alone and branches merge. `bits` has, for each
case, the base64 of the zlib-compressed packed bits: for each repeat the targets that were right
before the attack, then those right after it (`numpy.packbits`, first target first). No pickles.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import statistics
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grb_check.cases.metrics import relative_drop
from grb_check.cases.outcomes import Outcome
from grb_check.errors import UsageError
from grb_check.files.whole import write_whole

FORMAT: Final = 2
WHAT: Final = (
    "baseline of grb_check: pytest --grb-baseline=FILE compares, --grb-update-baseline writes"
)
MOST_BYTES: Final = 100_000_000  # of bits of one case; more is no file of ours


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One case as it was.

    Attributes:
        dataset: fingerprint of the data.
        attack: its description with version and settings; empty where nothing tells.
        threat: what it was allowed.
        targets: how many.
        seconds: that the case took, without the victim's training.
        before: packed bits of the targets right on the clean graph, for each repeat ...
        after: ... and on the attacked one.
        weights: digest of the victim of each repeat ...
        perturbations: ... and of what it faced.
    """

    dataset: str
    attack: str
    threat: str
    targets: int
    seconds: float
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    weights: tuple[str, ...]
    perturbations: tuple[str, ...]

    @property
    def repeats(self) -> int:
        return len(self.after)

    @property
    def clean(self) -> tuple[float, ...]:
        """Accuracy before, in [0, 1], of each repeat."""
        return tuple(_count(bits) / self.targets for bits in self.before)

    @property
    def attacked(self) -> tuple[float, ...]:
        """Accuracy after, in [0, 1], of each repeat."""
        return tuple(_count(bits) / self.targets for bits in self.after)


def entry_of(outcome: Outcome) -> Entry:
    """What the file keeps of an outcome."""
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
        weights=tuple(each.weights for each in repeats),
        perturbations=tuple(each.perturbation for each in repeats),
    )


def write_baseline(path: Path, entries: Mapping[str, Entry], versions: Mapping[str, str]) -> None:
    """Write the whole file in one step.

    Args:
        path: of the file.
        entries: by the id of the case.
        versions: of what made them.
    """
    about = {"format": FORMAT, "what": WHAT, **versions}
    ordered = sorted(entries)
    cases = {name: _head(entries[name]) for name in ordered}
    bits = {name: _packed(entries[name]) for name in ordered}
    # Objects of cases over several lines, everything in them on one.
    lines = ["{", f' "about": {_object(about, 1)},', ' "cases": {']
    lines += _listed(f"  {json.dumps(name)}: {_object(head, 2)}" for name, head in cases.items())
    lines += [" },", ' "bits": {']
    lines += _listed(f"  {json.dumps(name)}: {json.dumps(text)}" for name, text in bits.items())
    lines += [" }", "}"]
    write_whole(path, ("\n".join(lines) + "\n").encode())


def read_baseline(path: Path) -> dict[str, Entry]:
    """The entries by the id of their case.

    Raises:
        UsageError: the file is none of these, of another format, or its bits and figures differ.
    """
    record = _read(path)
    cases, bits = record["cases"], record["bits"]
    if set(cases) != set(bits):
        odd = min(set(cases) ^ set(bits))
        raise _damaged(path, f"{odd!r} has no figures, or no bits")
    return {name: _entry(path, name, cases[name], bits[name]) for name in cases}


def digest_of(entries: Mapping[str, Entry]) -> str:
    """Hex digest of all that the entries hold, whoever packed them: 16 digits."""
    content = {
        name: {**_head(entry), "before": _hex(entry.before), "after": _hex(entry.after)}
        for name, entry in entries.items()
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def versions_of(path: Path) -> dict[str, str]:
    """What the file was made with: names and versions.

    Raises:
        UsageError: see `read_baseline`.
    """
    about = _read(path)["about"]
    return {str(key): str(about[key]) for key in about if key not in ("format", "what")}


def _head(entry: Entry) -> dict[str, Any]:
    drops = [relative_drop(*pair) for pair in zip(entry.clean, entry.attacked, strict=True)]
    spread = f" +- {100 * statistics.stdev(drops):.1f}" if len(drops) > 1 else ""
    return {
        "clean": f"{statistics.fmean(entry.clean):.2%}",
        "attacked": f"{statistics.fmean(entry.attacked):.2%}",
        "drop": f"{statistics.fmean(drops):.1%}{spread}",
        "attacked_by_repeat": [round(100 * each, 2) for each in entry.attacked],
        "repeats": entry.repeats,
        "targets": entry.targets,
        "seconds": entry.seconds,
        "dataset": entry.dataset,
        "attack": entry.attack,
        "threat": entry.threat,
        "weights": " ".join(entry.weights),
        "perturbations": " ".join(entry.perturbations),
    }


def _packed(entry: Entry) -> str:
    pairs = zip(entry.before, entry.after, strict=True)
    return base64.b64encode(zlib.compress(b"".join(a + b for a, b in pairs), 9)).decode()


def _object(fields: Mapping[str, Any], depth: int) -> str:
    """A JSON object, one field a line."""
    space = " " * (depth + 1)
    inner = _listed(
        f"{space}{json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items()
    )
    return "\n".join(["{", *inner, " " * depth + "}"])


def _listed(lines: Iterable[str]) -> list[str]:
    """The lines with commas between them."""
    every = list(lines)
    return [f"{line}," for line in every[:-1]] + every[-1:]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--grb-baseline {str(path)!r} cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise _damaged(path, f"no JSON ({error}); a merge may have left its marks") from None
    about = record.get("about") if isinstance(record, dict) else None
    if not isinstance(about, dict) or "format" not in about:
        raise _damaged(path, "no baseline of grb_check")
    if about["format"] != FORMAT:
        raise UsageError(
            f"--grb-baseline {str(path)!r} has format {about['format']!r}, this version of "
            f"grb_check reads {FORMAT}; write it anew with --grb-update-baseline"
        )
    if not all(isinstance(record.get(part), dict) for part in ("cases", "bits")):
        raise _damaged(path, "cases or bits are missing")
    checked: dict[str, dict[str, Any]] = record
    return checked


def _entry(path: Path, name: str, head: Any, text: Any) -> Entry:
    try:
        repeats, targets = int(head["repeats"]), int(head["targets"])
        before, after = _unpacked(text, repeats, targets)
        entry = Entry(
            dataset=str(head["dataset"]),
            attack=str(head["attack"]),
            threat=str(head["threat"]),
            targets=targets,
            seconds=float(head["seconds"]),
            before=before,
            after=after,
            weights=tuple(head["weights"].split(" ")),
            perturbations=tuple(head["perturbations"].split(" ")),
        )
    except (KeyError, TypeError, AttributeError, ValueError, binascii.Error, zlib.error) as error:
        raise _damaged(path, f"{name!r}: {type(error).__name__}: {error}") from None
    if len(entry.weights) != repeats or len(entry.perturbations) != repeats:
        raise _damaged(path, f"{name!r} has not a digest for each of {repeats} repeats")
    if _head(entry) != head:
        raise _damaged(path, f"figures and bits of {name!r} differ; one was edited")
    return entry


def _unpacked(text: str, repeats: int, targets: int) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    width = (targets + 7) // 8
    if repeats < 1 or targets < 1 or 2 * repeats * width > MOST_BYTES:
        raise ValueError(f"{repeats} repeats of {targets} targets")
    inflate = zlib.decompressobj()
    content = inflate.decompress(base64.b64decode(text, validate=True), 2 * repeats * width + 1)
    if len(content) != 2 * repeats * width:
        raise ValueError(f"bits of another size than {repeats} repeats of {targets} targets")
    parts = [content[start : start + width] for start in range(0, len(content), width)]
    return tuple(parts[::2]), tuple(parts[1::2])


def _hex(repeats: Iterable[bytes]) -> list[str]:
    return [bits.hex() for bits in repeats]


def _count(bits: bytes) -> int:
    return int.from_bytes(bits, "big").bit_count()


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(
        f"--grb-baseline {str(path)!r} is damaged: {why}; take it from version control, or write "
        f"it anew with --grb-update-baseline"
    )
