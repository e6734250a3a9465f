"""The settings and the search path of a run in a copy of the files of another revision."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from grb_check.datasets.catalogue import split_off_selection
from grb_check.runs.workers.processes import WorkerPlace
from grb_check.settings.settings import DatasetSpec, RunSettings
from grb_check.user_code.revisions import belongs_to


@dataclass(frozen=True)
class RevisionCopy:
    """The files of a revision.

    Attributes:
        top: folder of the repository, resolved.
        folder: the copy, see `revisions.worktree`.
    """

    top: Path
    folder: Path

    def path(self, path: Path) -> Path:
        """The same place in the copy; the path itself outside the repository."""
        path = path.resolve()
        inside = path.is_relative_to(self.top)
        return self.folder / path.relative_to(self.top) if inside else path

    def existing(self, path: str) -> str:
        """The same place in the copy, if there is something, else that of the working tree."""
        moved = self.path(Path(path))
        return str(moved if moved.exists() else Path(path).resolve())

    def settings(self, settings: RunSettings, digest: str = "") -> RunSettings:
        """The same settings; files of data are those of the revision where it has them.

        Args:
            settings: of the run.
            digest: of the files of the revision: what was measured with them is used again.
        """
        execution = replace(settings.execution, digests={}, resume=bool(digest), files=digest)
        return replace(
            settings,
            data=tuple(map(self.existing, settings.data)),
            datasets=tuple(map(self.dataset, settings.datasets)),
            execution=execution,
        )

    def dataset(self, spec: DatasetSpec) -> DatasetSpec:
        """The same dataset, of the revision where it has its files."""
        given, selection = split_off_selection(spec.given)
        name, equals, path = given.rpartition("=")
        if not os.path.isabs(path):
            return spec
        return replace(spec, given=f"{name}{equals}{self.existing(path)}{selection}")

    def place(
        self, cwd: Path, settings: RunSettings, folders: Sequence[str | Path] = ()
    ) -> WorkerPlace:
        """The place of workers: their directory, and their `sys.path`, that of the copy first.

        Args:
            cwd: working directory.
            settings: of the run.
            folders: to import from, before those of this process.
        """
        path = [Path(entry) for entry in (*folders, *sys.path) if entry]
        entries = path[:]
        for model in settings.models:
            spec = find_spec(model.target.partition(":")[0].partition(".")[0])
            locations = (spec and spec.submodule_search_locations) or ()
            entries += [Path(location).parent for location in locations]
        inside = [entry for entry in entries if belongs_to(self.top, entry)]
        moved = dict.fromkeys(str(self.path(entry)) for entry in inside)
        others = (str(entry) for entry in path if entry not in inside)
        return WorkerPlace(cwd=str(self.path(cwd)), path=(*moved, *others))
