"""Where datasets may come from: the user's folders, our own, and the network if it is allowed."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from grb_check.datasets.download.sources import named_sources

HOME_VARIABLE: Final = "GRB_CHECK_DATA"

SplitRule = Literal["grb", "given"]
SPLIT_RULES: Final[tuple[SplitRule, ...]] = ("grb", "given")
Training = Literal["inductive", "transductive"]
TRAININGS: Final[tuple[Training, ...]] = ("inductive", "transductive")
FeatureRule = Literal["grb", "rows"]
FEATURE_RULES: Final[tuple[FeatureRule, ...]] = ("grb", "rows")


def data_home() -> Path:
    """The only folder that is written to: `$GRB_CHECK_DATA`, else one in the user's cache.

    A user without a home folder, as in some containers, gets one among the temporary files.
    """
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return expanded(named)
    cache = expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    if not cache.is_absolute():
        cache = Path(tempfile.gettempdir())
    return cache / "grb_check" / "data"


def expanded(path: Path | str) -> Path:
    """With `~` and `~user` replaced where the user is known; `Path.expanduser` raises elsewhere."""
    return Path(os.path.expanduser(path))


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where to look for datasets, and what may be done to get one.

    Attributes:
        folders: named by the user; only read.
        home: what is downloaded, unpacked or generated goes here; looked in after `folders`.
        download: whether the network may be used.
        sources: the user's list of download sources, see `sources.urls_for`.
        split: GRB's split, or the one that a dataset brings along.
        training: whether models of nodes learn on the training nodes' graph or on the whole one.
        features: GRB's normalisation, or the raw ones with rows that sum to 1.
    """

    folders: tuple[Path, ...] = ()
    home: Path = field(default_factory=data_home)
    download: bool = False
    sources: tuple[str, ...] = field(default_factory=named_sources)
    split: SplitRule = "grb"
    training: Training = "inductive"
    features: FeatureRule = "grb"

    @property
    def searched(self) -> tuple[Path, ...]:
        """All folders in the order in which they are looked in."""
        return (*self.folders, self.home)
