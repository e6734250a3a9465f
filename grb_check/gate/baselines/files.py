"""The baseline file: figures for review, and which targets were right in each repeat.

A typed JSON file, see `typed_json`. `cases` has, for each case, the figures and what they depend
on, one field a line. `bits` has, for each case, the base64 of the zlib-compressed packed bits: for
each repeat the targets that were right before the attack, then those right after it
(`numpy.packbits`, first target first). Figures are formed from the bits, and checked against them
when the file is read. The id of a case names the model even if its run had no other, so that the
entries of a model are found again in a run of several.

Imports numpy when targets are compared.
"""

from __future__ import annotations

import base64
import statistics
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import msgspec

from grb_check.cases.metrics import relative_drop
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import Outcome
from grb_check.cases.target_weights import ACCURACY, BALANCED, right_share
from grb_check.errors import UsageError, count
from grb_check.files.outputs import write_output
from grb_check.files.typed_json import FileKind, digest_of, encode, read

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.float64]

MAX_BYTES: Final = 100_000_000  # of the bits of one case, so that a damaged file cannot fill memory
Count = Annotated[int, msgspec.Meta(ge=1, le=8 * MAX_BYTES)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
ABOUT: Final = (
    "baseline of grb_check: pytest --grb-baseline=FILE compares, --grb-update-baseline writes"
)
WANTED: Final = "take it from version control, or write it again with --grb-update-baseline"
Accuracy: TypeAlias = Literal["attacked", "clean"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of the file: every field known, no other accepted."""


class Figures(_Part, frozen=True):
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


class BaselineContent(_Part, frozen=True):
    """The content of the file.

    The keys of `cases` and `bits` are case ids that always name the model, or node ids of users'
    own tests; those of `target_weights` are those whose figures are balanced accuracies, and those
    of `recall` and `areas` those whose figures are recalls.
    """

    about: str
    versions: dict[str, str]
    cases: dict[str, Figures]
    bits: dict[str, str]
    target_weights: dict[str, str] = {}
    recall: dict[str, str] = {}
    areas: dict[str, list[tuple[Share, Share]]] = {}


@dataclass(frozen=True, kw_only=True)
class BaselineCase:
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
        target_weights, recall: see `Outcome`.
        areas: of a recall: ROC-AUC and average precision under attack, in each repeat.
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
    target_weights: bytes = b""
    recall: str = ""
    areas: tuple[tuple[float, float], ...] = ()

    @property
    def repeats(self) -> int:
        """Number of repeats."""
        return len(self.after)

    def of_first(self, repeats: int) -> BaselineCase:
        """Return the same with the first repeats alone; its time stays that of all."""
        return replace(
            self,
            before=self.before[:repeats],
            after=self.after[:repeats],
            weights=self.weights[:repeats],
            perturbations=self.perturbations[:repeats],
            areas=self.areas[:repeats],
        )

    @property
    def clean(self) -> tuple[float, ...]:
        """Accuracy before the attack in each repeat, in [0, 1]."""
        return tuple(right_share(bits, self.targets, self.target_weights) for bits in self.before)

    @property
    def attacked(self) -> tuple[float, ...]:
        """Accuracy after the attack in each repeat, in [0, 1]."""
        return tuple(right_share(bits, self.targets, self.target_weights) for bits in self.after)

    @property
    def metric(self) -> str:
        """What its figures are of."""
        return self.recall or (BALANCED if self.target_weights else ACCURACY)


BASELINE: Final = FileKind(name="baseline", type=BaselineContent, format=7, remedy=WANTED)


@dataclass(frozen=True, kw_only=True)
class BaselineFile:
    """A baseline file; without entries if there is none.

    Attributes:
        entries: by their key: `model@` and the case, or the node id of a user's own test.
        versions: of the packages that it was measured with, by name.
        digest: of the content that was read; empty otherwise.
    """

    entries: Mapping[str, BaselineCase] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""

    @property
    def groups(self) -> Counter[tuple[str, str]]:
        """Number of entries of each model and dataset, without users' own tests."""
        ids = (key.partition("@")[::2] for key in self.entries if not is_user_test(key))
        return Counter((model, cell.rsplit("/", 3)[0]) for model, cell in ids)

    @property
    def models(self) -> tuple[str, ...]:
        """The labels of its models."""
        return tuple(sorted({model for model, _ in self.groups}))

    def with_prefix(self, old: str, new: str) -> BaselineFile:
        """Return the same with `new` instead of `old` at the beginning of its keys."""
        given = self.entries
        moved = [key for key in given if key.startswith(old) and not is_user_test(key)]
        rest = {key: entry for key, entry in given.items() if key not in moved}
        named = {new + key.removeprefix(old): given[key] for key in moved}
        return replace(self, entries={**rest, **named})


def is_user_test(key: str) -> bool:
    """Whether an entry is of a user's own test, which not every run has."""
    return "::" in key and not is_node_id(key)


def entry_of(outcome: Outcome) -> BaselineCase:
    """Return the entry of an outcome."""
    repeats = outcome.repeats
    spent = sum(repeat.seconds - repeat.training_seconds for repeat in repeats)
    return BaselineCase(
        dataset=outcome.dataset[:16],
        attack=outcome.attack,
        threat=outcome.threat,
        targets=outcome.targets,
        seconds=round(spent, 1),
        before=tuple(repeat.victim.right_before for repeat in repeats),
        after=tuple(repeat.victim.right_after for repeat in repeats),
        pretrained=all(repeat.pretrained for repeat in repeats),
        weights=tuple(repeat.weights for repeat in repeats),
        perturbations=tuple(repeat.perturbation for repeat in repeats),
        target_weights=outcome.target_weights,
        recall=outcome.recall,
        areas=_areas(outcome),
    )


def _areas(outcome: Outcome) -> tuple[tuple[float, float], ...]:
    # Where each target has a graph of its own, there is none of all nodes under attack.
    attacked = [repeat.rankings[1] for repeat in outcome.repeats if len(repeat.rankings) > 1]
    if len(attacked) < len(outcome.repeats):
        return ()
    return tuple((round(one.roc_auc, 6), round(one.average_precision, 6)) for one in attacked)


def write_baseline(path: Path, saved: BaselineFile) -> None:
    """Write the whole file in one step.

    Args:
        path: of the file.
        saved: its content; its versions name that of grb_check.

    Raises:
        OSError: it cannot be written.
    """
    text = encode(BASELINE, content_of(saved), saved.versions["grb_check"])
    write_output(path, text.encode())


def read_baseline(path: Path) -> BaselineFile:
    """Read a file.

    Raises:
        UsageError: it is not a baseline, is of another format, or its bits and figures differ.
    """
    return saved_of(read(BASELINE, path), f"baseline {str(path)!r}")


def content_of(saved: BaselineFile) -> BaselineContent:
    """Return the content of the file."""
    names = sorted(saved.entries)
    return BaselineContent(
        about=ABOUT,
        versions=dict(saved.versions),
        cases={name: _figures(saved.entries[name]) for name in names},
        bits={name: _packed(saved.entries[name]) for name in names},
        target_weights={
            name: base64.b64encode(zlib.compress(weights, 9)).decode()
            for name in names
            if (weights := saved.entries[name].target_weights)
        },
        recall={name: text for name in names if (text := saved.entries[name].recall)},
        areas={name: [*areas] for name in names if (areas := saved.entries[name].areas)},
    )


def saved_of(content: BaselineContent, name: str) -> BaselineFile:
    """Return what the content of a file says.

    Raises:
        UsageError: its bits and figures differ.
    """
    try:
        entries = _entries(content)
    except ValueError as error:
        raise UsageError(f"{name} is damaged: {error}; {WANTED}") from None
    return BaselineFile(
        entries=entries,
        versions=content.versions,
        digest=digest_of(content),
    )


def _entries(content: BaselineContent) -> dict[str, BaselineCase]:
    """Return the entries of these figures and bits; raises ValueError if they differ."""
    cases, bits = content.cases, content.bits
    if set(cases) != set(bits):
        odd = min(set(cases) ^ set(bits))
        raise ValueError(f"{odd!r} is in cases or in bits alone")
    return {
        name: replace(
            _entry(name, figures, bits[name], content.target_weights.get(name, "")),
            recall=content.recall.get(name, ""),
            areas=_read_areas(name, content.areas.get(name, []), figures.repeats),
        )
        for name, figures in cases.items()
    }


def _read_areas(
    name: str, areas: Sequence[tuple[float, float]], repeats: int
) -> tuple[tuple[float, float], ...]:
    if areas and len(areas) != repeats:
        raise ValueError(f"areas of {name!r} must have one pair for each repeat")
    return tuple(areas)


def _figures(entry: BaselineCase) -> Figures:
    drops = [relative_drop(*pair) for pair in zip(entry.clean, entry.attacked, strict=True)]
    spread = f" +- {100 * statistics.stdev(drops):.1f}" if len(drops) > 1 else ""
    return Figures(
        clean=f"{statistics.fmean(entry.clean):.2%}",
        attacked=f"{statistics.fmean(entry.attacked):.2%}",
        drop=f"{statistics.fmean(drops):.1%}{spread}",
        attacked_by_repeat=" ".join(f"{100 * accuracy:.2f}" for accuracy in entry.attacked),
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


def _packed(entry: BaselineCase) -> str:
    pairs = zip(entry.before, entry.after, strict=True)
    return base64.b64encode(zlib.compress(b"".join(a + b for a, b in pairs), 9)).decode()


def _entry(name: str, figures: Figures, packed: str, weights: str) -> BaselineCase:
    """Return an entry whose figures are those of its bits; raises ValueError if they differ."""
    what = repr(name)
    try:
        before, after = _unpacked(packed, figures.repeats, figures.targets)
        size, what_of = 8 * figures.targets, count(figures.targets, "weight")
        target_weights = _decompressed(weights, size, what_of) if weights else b""
    except (ValueError, zlib.error) as error:  # binascii.Error is a ValueError
        raise ValueError(f"bits of {what}: {error}") from None
    entry = BaselineCase(
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
        target_weights=target_weights,
    )
    for field_name in ("weights", "perturbations"):
        if len(getattr(entry, field_name)) != entry.repeats:
            raise ValueError(f"{field_name} of {what} must have one digest for each repeat")
    from_bits = _figures(entry)
    for attribute in Figures.__struct_fields__:
        result, formed = getattr(figures, attribute), getattr(from_bits, attribute)
        if result != formed:
            raise ValueError(f"{attribute} of {what} is {result!r}, and its bits give {formed!r}")
    return entry


def _unpacked(text: str, repeats: int, targets: int) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    width = (targets + 7) // 8
    size = 2 * repeats * width
    if size > MAX_BYTES:
        raise ValueError(
            f"{count(repeats, 'repeat')} of {count(targets, 'target')} would exceed "
            f"{MAX_BYTES} bytes"
        )
    content = _decompressed(text, size, f"{count(repeats, 'repeat')} of {count(targets, 'target')}")
    parts = [content[start : start + width] for start in range(0, size, width)]
    padding = (1 << 8 * width - targets) - 1  # the last bits of the last byte
    if any(part[-1] & padding for part in parts):
        raise ValueError(f"bits of more than {count(targets, 'target')}")
    return tuple(parts[::2]), tuple(parts[1::2])


def _decompressed(text: str, size: int, what: str) -> bytes:
    """Return bytes of that size, which are `what`; raises ValueError if there are more or fewer."""
    content = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    if len(content) != size:
        raise ValueError(f"not {what}")
    return content
