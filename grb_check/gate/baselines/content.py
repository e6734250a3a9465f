"""The types of the content of a baseline file, as it is written."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

MAX_LABEL: Final = 80  # characters of the label of a pin
MAX_BYTES: Final = 100_000_000  # of the bits of one case, so that a damaged file cannot fill memory
Count = Annotated[int, msgspec.Meta(ge=1, le=8 * MAX_BYTES)]
Label = Annotated[str, msgspec.Meta(max_length=MAX_LABEL)]


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


class StoredLoss(_Part, frozen=True):
    """Loss of attacked accuracy that an update accepted, in points; None if it is unknown.

    Attributes:
        cases: number of cases of the update.
        replaced: the loss against the entries that it replaced.
        since_pin: the loss against the pin of that time.
        pin: label of that pin.
    """

    cases: Count
    replaced: float | None
    since_pin: float | None
    pin: Label


class PinContent(_Part, frozen=True):
    """The pin in the file: only the entries that are not those of `Content`."""

    label: Label
    versions: dict[str, str]
    cases: dict[str, Figures]
    bits: dict[str, str]


class Content(_Part, frozen=True):
    """The content of the file.

    The keys of `cases` and `bits` are case ids that always name the model, or node ids of users'
    own tests; those of `losses` are `model@dataset`.
    """

    about: str
    versions: dict[str, str]
    losses: dict[str, StoredLoss]
    cases: dict[str, Figures]
    bits: dict[str, str]
    pin: PinContent
