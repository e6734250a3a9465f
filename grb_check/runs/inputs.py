"""The files that settings name: the one place where a run opens files before it measures.

A baseline, a revision of the user's repository, a pack, leaderboards, and the digests of the files
of all that is the user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import Case
from grb_check.errors import UsageError
from grb_check.files.versions import versions
from grb_check.gate.baselines.baseline import Baseline, open_baseline
from grb_check.ranking.comparison_models import Boards, boards_for
from grb_check.settings.options import DEFAULT
from grb_check.settings.selecting import ranks_are_optional
from grb_check.settings.settings import RunSettings, Settings
from grb_check.store.pack import Pack, open_pack
from grb_check.user_code.factories import check_package
from grb_check.user_code.revisions import Revision, find_revision
from grb_check.user_code.sources import sources_digest


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The settings of a run, and the files that they name.

    Attributes:
        settings: with the number of repeats of the baseline, if none is given.
        baseline: that the run is compared with, or writes; None for none.
        revision: that the run is compared with; None for none.
        pack: that black-box perturbations are taken from; None to make them.
    """

    settings: RunSettings
    baseline: Baseline | None = None
    revision: Revision | None = None
    pack: Pack | None = None


def open_inputs(settings: RunSettings, cwd: Path) -> Inputs:
    """Open the files that settings name.

    Args:
        settings: as they were read.
        cwd: working directory, in whose repository a revision is looked for.

    Raises:
        UsageError: one does not exist, is damaged, or cannot be used in this run.
    """
    _check_packages(settings)
    pack = opened_pack(settings)
    if pack is not None:
        settings = replace(settings, pack_digest=pack.digest)
    revision = None
    if settings.base is not None:
        revision = find_revision(settings.base, cwd, "--grb-base")
    baseline = _baseline(settings) if settings.baseline else None
    if baseline is not None and settings.origins.get("grb_repeats") == DEFAULT:
        origins = {**settings.origins, "grb_repeats": "baseline"}
        settings = replace(settings, repeats=baseline.repeats, origins=origins)
    return Inputs(settings=settings, baseline=baseline, revision=revision, pack=pack)


def _check_packages(settings: RunSettings) -> None:
    """Refuse models none of which has a package that exists, before torch is imported."""
    errors = []
    for model in settings.models:
        try:
            check_package(model.target, "model")
        except UsageError as error:
            errors.append(error)
    if errors and len(errors) == len(settings.models):
        raise errors[0]


def _baseline(settings: RunSettings) -> Baseline:
    path, shard = Path(settings.baseline), settings.execution.shard
    baseline = open_baseline(path, settings.margin, settings.only_label, update=settings.update)
    if baseline.writes and shard is not None:
        raise UsageError(
            f"--grb-baseline {str(path)!r} cannot be written by shard {shard} of a run; let "
            f"python -m grb_check merge write it, or leave --grb-shard out"
        )
    return baseline


def opened_pack(settings: RunSettings) -> Pack | None:
    """Return the pack that settings name; None if they name none.

    Raises:
        UsageError: it is missing or damaged, or is not the one that the run began with.
    """
    return open_pack(Path(settings.pack), settings.pack_digest) if settings.pack else None


def boards_of(settings: Settings, cases: Sequence[Case]) -> Boards:
    """Return the leaderboards that the settings ask for, on this machine.

    Args:
        settings: of the run.
        cases: of the whole run.

    Raises:
        UsageError, DataError: see `boards_for`.
    """
    return boards_for(
        settings.comparison_models,
        cases,
        settings.datasets,
        settings.places,
        optional=ranks_are_optional(settings.origins),
    )


def with_digests(settings: RunSettings, registry: AttackRegistry) -> RunSettings:
    """Return settings with the digests of the files of all that is the user's, and its attacks."""
    named, elsewhere = targets(settings, registry), bool(settings.execution.executor)
    execution = replace(
        settings.execution,
        user_attacks=registry.named,
        digests={target: sources_digest(target) for target in [*named, *["grb_check"] * elsewhere]},
        versions=versions() if elsewhere else {},
    )
    return replace(settings, execution=execution)


def targets(settings: RunSettings, registry: AttackRegistry) -> list[str]:
    """Return the import paths of all that is the user's: models, attacks and datasets."""
    registered = {name: path for name, path, _ in registry.registered}
    attacks = [registered.get(name, name) for name in registry.named]
    functions = [spec.function for spec in settings.datasets]
    result = [*(model.target for model in settings.models), *attacks, *functions]
    return [target for target in dict.fromkeys(result) if ":" in target]


def recorded_durations(inputs: Inputs) -> tuple[Mapping[str, float], Path | None]:
    """Return the seconds of one repeat of each case, and the file that they are from.

    Returns:
        Nothing if the run is not divided, or no baseline has durations.
    """
    execution, baseline = inputs.settings.execution, inputs.baseline
    divided = execution.shard is not None or execution.elsewhere
    if divided and baseline is not None and baseline.entries:
        entries = baseline.entries.items()
        return {key: entry.seconds / entry.repeats for key, entry in entries}, baseline.path
    return {}, None
