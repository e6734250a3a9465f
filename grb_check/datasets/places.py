"""Places of datasets: the user's directories, the data directory, and the network if allowed."""

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
FeatureRule = Literal["grb", "rows", "given"]
FEATURE_RULES: Final[tuple[FeatureRule, ...]] = ("grb", "rows", "given")


def data_home() -> Path:
    """Return the only directory that is written to: `$GRB_CHECK_DATA`, else one in the cache.

    Without a home directory, as in some containers, it is one among the temporary files.
    """
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return expanded(named)
    cache = expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    if not cache.is_absolute():
        cache = Path(tempfile.gettempdir())
    return cache / "grb_check" / "data"


def expanded(path: Path | str) -> Path:
    """Replace `~` and `~user`; an unknown user, for which `Path.expanduser` raises, stays."""
    return Path(os.path.expanduser(path))


@dataclass(frozen=True, kw_only=True)
class Places:
    """Directories to search for datasets, and how to read them.

    Attributes:
        folders: named by the user; only read.
        home: the data directory, for downloads and generated graphs; searched after `folders`.
        download: whether the network may be used.
        sources: the user's list of download sources, see `sources.urls_for`.
        split: GRB's split, or the dataset's own; None for the default, see `Source.split`.
        training: whether models train on the subgraph of the training nodes or on the whole graph.
        features: GRB's normalisation, raw features with rows that sum to 1, or as given; None for
            the default, see `Source.features`.
    """

    folders: tuple[Path, ...] = ()
    home: Path = field(default_factory=data_home)
    download: bool = False
    sources: tuple[str, ...] = field(default_factory=named_sources)
    split: SplitRule | None = None
    training: Training = "inductive"
    features: FeatureRule | None = None

    @property
    def searched(self) -> tuple[Path, ...]:
        """All directories, in the order of the search."""
        return (*self.folders, self.home)
