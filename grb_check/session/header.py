"""Lines for pytest's header: what is in force, and its origin."""

from __future__ import annotations

from pathlib import Path

from grb_check.cases.shards import Plan
from grb_check.errors import count
from grb_check.files.whole import shown
from grb_check.gate.default_limit import DROP_MARGIN
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.settings import Settings
from grb_check.store.place import is_url


def header(settings: Settings, cases: int, device: str) -> list[str]:
    """Return the settings in force with their origins.

    Args:
        settings: of the run.
        cases: number of cases of the whole run.
        device: in use; empty if not known yet.
    """
    origin = settings.origins
    models = ", ".join(
        f"{f'{each.label}=' if len(settings.models) > 1 else ''}{each.target}"
        f"{f'({_arguments(each)})' if each.args else ''}"
        for each in settings.models
    )
    selected = "grb_dataset" if origin["grb_dataset"] != "default" else "grb_suite"
    names = ", ".join(source.name for source in settings.datasets)
    repeats = f" x {count(settings.repeats, 'repeat')} ({origin['grb_repeats']})"
    used = device if settings.device != "auto" else f"auto{f' = {device}' if device else ''}"
    return [
        f"grb model: {models} ({origin['grb_model']})",
        f"grb datasets: {names} ({origin[selected]}); {count(cases, 'case')} of suite "
        f"{settings.suite} ({origin['grb_suite']}){repeats}",
        *_budgets(settings),
        f"grb device: {used} ({origin['grb_device']}); "
        f"store: {_store(settings)} ({origin['grb_store']})",
        *_pack(settings),
        *_against(settings),
        *_baseline(settings),
        *(f"grb limit: {line}" for line in _limits(settings)),
    ]


def shard_lines(plan: Plan, times: Path | None, *, others: bool) -> list[str]:
    """Return the part of a run that this is; nothing for a whole run.

    Args:
        plan: of the run.
        times: file of the durations by which the parts are balanced; None without one.
        others: whether tests other than the built-in cases may run as well.
    """
    if plan.shard is None:
        return []
    own, every = len(plan.own), len(plan.cases)
    by = "taken as equally long" if times is None else f"by the times in {times.name}"
    lines = [f"grb shard: {plan.shard}, {own} of {count(every, 'case')}, {by}"]
    if others:
        lines.append(
            "grb shard: the repository's own tests are not divided and run in every part; "
            "--grb-only leaves them out"
        )
    return lines


def _budgets(settings: Settings) -> list[str]:
    shares = ", ".join(f"{budget:g}" for budget in settings.budgets)
    return [f"grb budgets: {shares} ({settings.origins['grb_budget']})"] if shares else []


def _pack(settings: Settings) -> list[str]:
    pack = settings.pack
    if pack is None:
        return []
    return [
        f"grb pack: {shown(pack.path)}, {pack.content}, digest {pack.digest[:16]} "
        f"({settings.origins['grb_pack']})"
    ]


def _against(settings: Settings) -> list[str]:
    boards, origin = str(settings.comparison_models), settings.origins.get("grb_rank_against")
    return [f"grb ranks: against {boards} ({origin})"] if boards else []


def _baseline(settings: Settings) -> list[str]:
    baseline = settings.baseline
    if baseline is None:
        return []
    what = f"{count(len(baseline.entries), 'entry', 'entries')}, margin {baseline.margin:g} points"
    changed = len(baseline.saved.repinned)
    if changed:
        what += f", {count(changed, 'entry', 'entries')} changed since {baseline.saved.pin.name}"
    if baseline.writes:
        what = "to be written" if baseline.requested else "not there yet: to be written"
        what += ", nothing is compared"
    where = shown(baseline.path)
    return [f"grb baseline: {where}, {what} ({settings.origins['grb_baseline']})"]


def _arguments(model: ModelSpec) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in model.args.items())


def _store(settings: Settings) -> str:
    place = settings.store
    if place is None:
        return "off"
    where = place.location if is_url(place.location) else shown(Path(place.location))
    return f"{where}{', read only' if place.read_only else ''}"


def _limits(settings: Settings) -> list[str]:
    gate, origin = settings.gate, settings.origins
    lines = [
        f"drop {each.limit:.1%} for {each.pattern}{', only a warning' * each.warn} "
        f"({origin['grb_threshold']})"
        for each in gate.thresholds
    ]
    if gate.max_drop is not None:
        lines.append(f"drop {gate.max_drop:.1%} ({origin['grb_max_drop']})")
    else:
        lines.append(f"drop of the least robust reference + {DROP_MARGIN:.0%} + interval (default)")
    judges = settings.baseline is not None and not settings.baseline.writes
    if judges and gate.max_drop is None:
        lines[-1] += "; where the baseline has an entry, no loss beyond its margin instead"
    if gate.min_clean is not None:
        lines.append(f"clean accuracy at least {gate.min_clean:.1%} ({origin['grb_min_clean']})")
    lines += [
        f"rank {each.rank} for {each.pattern} ({origin['grb_min_rank']})"
        for each in settings.rank_limits
    ]
    if settings.expected_failures:
        known = count(len(settings.expected_failures), "line")
        lines.append(f"failures expected by {known} ({origin['grb_expected_failure']})")
    if gate.strict_diagnostics:
        lines.append(f"no finding of a diagnostic ({origin['grb_strict_diagnostics']})")
    if gate.strict_limits:
        lines.append(f"no default limit that judges nothing ({origin['grb_strict_limits']})")
    if gate.inconclusive == "fail":
        lines.append(f"no inconclusive comparison with a baseline ({origin['grb_inconclusive']})")
    return lines
