"""The settings of a run, as its record has them."""

from __future__ import annotations

from grb_check.ranking.lowest import REFERENCE
from grb_check.reports.record import ModelSettings, RunSettings
from grb_check.settings.settings import Settings


def settings_record(settings: Settings) -> RunSettings:
    """Return what reports and `merge` need of the settings."""
    places = settings.places
    return RunSettings(
        models=tuple(
            ModelSettings(label=each.label, target=each.target, args=repr(each.args))
            for each in settings.models
        ),
        suite=settings.suite,
        datasets=tuple(source.name for source in settings.datasets),
        graph_sets=tuple(source.name for source in settings.datasets if source.of_graphs),
        split=places.split,
        training=places.training,
        features=places.features,
        data=tuple(map(str, places.searched)),
        download=places.download,
        difficulties=settings.difficulties,
        attacks=tuple(map("/".join, settings.attacks)),
        budgets=settings.budgets,
        patterns=settings.patterns,
        repeats=settings.repeats,
        gate=settings.gate,
        rank_against=str(settings.comparison_models),
        delta_to=settings.delta_to or REFERENCE,
        rank_limits=settings.rank_limits,
        device=settings.device,
        origins=dict(settings.origins),
    )
