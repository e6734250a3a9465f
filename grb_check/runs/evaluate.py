"""One case without pytest: `grb_check.evaluate` gives its outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from grb_check.attacks.scenarios import POISONING
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.outcomes import Outcome
from grb_check.cases.whole_numbers import check_repeats
from grb_check.errors import choose
from grb_check.runs.inputs import open_inputs, with_digests
from grb_check.runs.measuring import Measuring
from grb_check.runs.tasks import ModelOnDataset
from grb_check.runs.workers.in_process import Inline
from grb_check.settings.python_options import read_python
from grb_check.settings.selecting import source_of

if TYPE_CHECKING:
    from grb_check.victims.subject import Model


def evaluate(
    model: Model,
    *,
    dataset: str | Path = "synthetic-cora",
    difficulty: str = "full",
    attack: str | object = "injection/pgd",
    repeats: int = 3,
    model_args: Mapping[str, object] | None = None,
    data: Path | str | Sequence[Path | str] = (),
    download: bool = False,
    split: str | None = None,
    training: str | None = None,
    features: str | None = None,
    store: Path | str | None = None,
    pack: Path | str | None = None,
    device: str = "auto",
) -> Outcome:
    """Attack a model in one case, without pytest.

    >>> import grb_check
    >>> grb_check.evaluate("mypkg:build", difficulty="easy").drop  # doctest: +SKIP
    0.41

    Args:
        model: `pkg.module:attr`, a factory, `Trained(module)` or `Encoder(module)`.
        dataset: as for `--grb-dataset`: a known name, a path, `pyg:CLASS/NAME`, or
            `pkg.module:function`.
        difficulty: easy, medium, hard or full.
        attack: `scenario/name`, a name that only one scenario has, or `pkg.module:attr`, each with
            or without modifiers (`pgd+white-box`, `prbcd+budget=0.1`); `scenario/worst`, the
            strongest of the suite `standard` (of `poisoning`, for that scenario); or an attack of
            your own, see `grb_check.attacks.protocol.Attack`.
        repeats: number of repeats, each with its own training and attack seed.
        model_args: keyword arguments for the factory.
        data: folders to look for datasets in.
        download: whether a dataset that is in none of them may be downloaded.
        split: `grb`, or `given` for the split that comes with the dataset; None for `given` if the
            data is your own and has one, else `grb`.
        training: `inductive`, or `transductive` for models that learn on the whole graph; None for
            what the scenario needs: `transductive` for poisoning.
        features: `grb` for GRB's normalisation, `rows` for rows that sum to 1, `given` to change
            nothing; None for `given` if the data is your own, else `grb`.
        store: folder of perturbations to reuse; None stores nothing.
        pack: file that all black-box perturbations are taken from, as for `--grb-pack`.
        device: a torch device, or auto.

    Raises:
        UsageError, DataError, ModelError: see `grb_check.errors`.
    """
    from grb_check.victims.subject import as_subject  # imports torch

    choose("difficulty", difficulty, DIFFICULTIES)
    check_repeats("repeats", repeats)
    registry = AttackRegistry()
    pair = registry.one(attack) if isinstance(attack, str) else registry.add(attack)
    poisons = "transductive" if pair[0] == POISONING else None
    options = {
        "dataset": str(dataset),
        "data": [data] if isinstance(data, (str, Path)) else list(data),
        "download": download,
        "split": split,
        "training": training or poisons,
        "features": features,
        "store": "off" if store is None else store,
        "pack": pack,
        "device": device,
    }
    inputs = open_inputs(read_python(options, registry), Path.cwd())
    settings = with_digests(inputs.settings, registry)
    source = source_of(settings, settings.datasets[0].name)
    subject = as_subject(model, model_args)
    on = ModelOnDataset(subject, source)
    calls = Inline(settings, attacks=registry)
    with closing(Measuring(calls, settings, lambda _: on)) as measuring:
        result = measuring.result(Case(source.name, difficulty, *pair), subject.name, repeats)
        while result.further is not None and not result.beside_all:
            result = result.further()
    return result.outcome
