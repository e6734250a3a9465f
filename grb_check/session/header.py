"""Lines for pytest's header: the settings in force, with their origins."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from grb_check.cases.shards import RunCases
from grb_check.errors import count
from grb_check.files.outputs import shown
from grb_check.files.text import fit_line
from grb_check.gate.baselines.baseline import Baseline
from grb_check.gate.default_limit import DROP_MARGIN
from grb_check.runs.inputs import Inputs
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.options import DEFAULT, Section, describe_given
from grb_check.settings.settings import RunSettings, found_again

# Options that the first lines are about.
HEADER_OPTIONS: Final = (
    "grb_model",
    "grb_model_args",
    "grb_suite",
    "grb_dataset",
    "grb_repeats",
    "grb_baseline",
    "grb_base",
)
FEATURES: Final = {
    "grb": "features normalised as in GRB",
    "rows": "features scaled so that rows sum to 1",
    "given": "features as given",
}
SECTIONS: Final[tuple[Section, ...]] = ("attacked", "data", "limits", "baselines", "ranks")


def header(inputs: Inputs, cases: int, device: str) -> list[str]:
    """Return the settings in force with their origins.

    Args:
        inputs: of the run.
        cases: number of cases of the whole run.
        device: in use; empty if not known yet.
    """
    settings = inputs.settings
    origin = settings.origins
    models = ", ".join(
        f"{f'{model.label}=' if len(settings.models) > 1 else ''}{model.target}"
        f"{f'({_arguments(model)})' if model.arguments else ''}"
        for model in settings.models
    )
    chosen = origin["grb_dataset"]
    if chosen == DEFAULT and origin["grb_suite"] != DEFAULT:
        chosen = "of the suite"
    names = ", ".join(source.name for source in settings.datasets)
    repeats = f" x {count(settings.repeats, 'repeat')} ({origin['grb_repeats']})"
    used = device if settings.device != "auto" else f"auto{f' = {device}' if device else ''}"
    return [
        f"grb model: {models} ({origin['grb_model']})",
        f"grb datasets: {names} ({chosen}); {count(cases, 'case')} of suite "
        f"{settings.suite} ({origin['grb_suite']}){repeats}",
        f"grb device: {used} ({origin['grb_device']}); "
        f"store: {_store(settings)} ({origin['grb_store']})",
        *_data(settings),
        *_pack(inputs),
        *_baseline(inputs),
        *_given(inputs),
    ]


def shard_lines(run_cases: RunCases, times: Path | None, *, others: bool) -> list[str]:
    """Return the part of a run that this is; nothing for a whole run.

    Args:
        run_cases: of the run.
        times: file of the durations by which the parts are balanced; None without one.
        others: whether tests other than the built-in cases may run as well.
    """
    if run_cases.shard is None:
        return []
    part_size, every = len(run_cases.part), len(run_cases.cases)
    by = "taken as equally long" if times is None else f"by the times in {times.name}"
    lines = [f"grb shard: {run_cases.shard}, {part_size} of {count(every, 'case')}, {by}"]
    if others:
        lines.append(
            "grb shard: the repository's own tests are not divided and run in every part; "
            "--grb-only leaves them out"
        )
    return lines


def _pack(inputs: Inputs) -> list[str]:
    pack = inputs.pack
    if pack is None:
        return []
    return [
        f"grb pack: {shown(pack.path)}, {pack.content}, digest {pack.digest[:16]} "
        f"({inputs.settings.origins['grb_pack']})"
    ]


def _data(settings: RunSettings) -> list[str]:
    """The rules of features and split, and the graph that models learn from."""
    groups: dict[str, list[str]] = {}
    for source in (found_again(spec, settings) for spec in settings.datasets):
        drawn = "80/20" if source.of_graphs else "GRB's"
        split = {
            "grb": "GRB's split",
            "given": "its own split",
            None: f"its own split if it has one, else {drawn}",
        }[source.split]
        learned = ", learned transductively" * (source.places.training == "transductive")
        limits = ", attacked within each column's range"
        by_column = source.features == "given" and not source.of_graphs
        about = f"{FEATURES[source.features]}{limits * by_column}, {split}{learned}"
        groups.setdefault(about, []).append(source.name)
    return [
        fit_line(f"grb protocol: {', '.join(names)}: {about}") for about, names in groups.items()
    ]


def _given(inputs: Inputs) -> list[str]:
    """Other options that were given, and the default limit if it is in force."""
    settings, baseline = inputs.settings, inputs.baseline
    shown = {name: text for name, text in settings.given.items() if name not in HEADER_OPTIONS}
    lines = [
        fit_line(f"grb {text} ({origin})")
        for text, origin in describe_given(shown, settings.origins, SECTIONS)
    ]
    if settings.gate.max_drop is None:
        judges = inputs.revision is not None or (baseline is not None and not baseline.writes)
        instead = "; where the baseline has an entry, no loss beyond its margin instead" * judges
        lines.append(
            f"grb limit: drop of the least robust reference + {DROP_MARGIN:.0%} + interval "
            f"(default){instead}"
        )
    return lines


def _baseline(inputs: Inputs) -> list[str]:
    baseline, origins = inputs.baseline, inputs.settings.origins
    if baseline is None:
        return []
    what = _entries(baseline)
    if baseline.writes:
        what = "to be written" if baseline.requested else "not there yet: to be written"
        what += ", nothing is compared"
    where = shown(baseline.path)
    return [f"grb baseline: {where}, {what} ({origins['grb_baseline']})"]


def base_lines(inputs: Inputs) -> list[str]:
    """Return the line on the base, when it is measured; none without one."""
    baseline = inputs.baseline
    if inputs.revision is None or baseline is None:
        return []
    content = "the same files, not measured" if baseline.same else _entries(baseline)
    return [f"grb base: {inputs.revision}, {content} ({inputs.settings.origins['grb_base']})"]


def _entries(baseline: Baseline) -> str:
    source = " from the store" * baseline.stored
    entries = count(len(baseline.entries), "entry", "entries")
    return f"{entries}{source}, margin {baseline.margin:g} points"


def _arguments(model: ModelSpec) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in model.arguments.items())


def _store(settings: RunSettings) -> str:
    store = settings.execution.store
    if store is None:
        return "off"
    return f"{shown(Path(store.location))}{', read only' if store.read_only else ''}"
