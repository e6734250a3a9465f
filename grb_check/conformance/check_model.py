"""All properties of a model, without pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from grb_check import datasets
from grb_check.conformance.check import check_property
from grb_check.conformance.model import CheckedModel
from grb_check.conformance.properties import PROPERTIES, PropertyResult, names_of
from grb_check.datasets.graph_dataset import GraphDataset
from grb_check.errors import PropertyError, choose, count
from grb_check.evaluation.evaluator import Evaluator
from grb_check.gradients.victim import Victim
from grb_check.store.place import open_store
from grb_check.victims.subject import Model, Subject, as_subject


def check_model(
    model: Model,
    *,
    dataset: str | Path = "synthetic-cora",
    properties: Sequence[str] = (),
    expected_failures: Mapping[str, str] | None = None,
    model_args: Mapping[str, object] | None = None,
    data: Path | str | Sequence[Path | str] = (),
    device: str = "auto",
) -> tuple[PropertyResult, ...]:
    """Train a model, and check properties that every sound model of graphs has.

    >>> import grb_check
    >>> grb_check.check_model("mypkg:build")  # doctest: +SKIP

    Args:
        model: `pkg.module:attr`, a factory, `Trained(module)` or `Encoder(module)`.
        dataset: that it is trained on, as for `--grb-dataset`.
        properties: names of those to check; all if empty.
        expected_failures: name -> reason of those that are known to fail.
        model_args: keyword arguments for the factory.
        data: folders to look for the dataset in.
        device: a torch device, or auto.

    Returns:
        What was found of each property.

    Raises:
        PropertyError: a property fails that is not expected to, with the smallest graph found for
            each; or one passes that is expected to fail.
        UsageError, DataError, ModelError: see `grb_check.errors`.
    """
    expected = expected_failures or {}
    for name in (*properties, *expected):
        choose("property", name, tuple(PROPERTIES))
    subject = as_subject(model, model_args)
    folders = [data] if isinstance(data, (str, Path)) else data
    places = datasets.Places(folders=tuple(Path(folder) for folder in folders))
    evaluator = Evaluator(store=open_store(None), device=device)
    checked = trained_model(evaluator, subject, datasets.find(str(dataset), places))
    result = tuple(
        check_property(checked, name)
        for name in names_of(of_graphs=checked.of_graphs)
        if not properties or name in properties
    )
    wrong = [
        outcome.explanation
        for outcome in result
        if outcome.result == "fail" and outcome.name not in expected
    ]
    wrong += [
        f"{outcome.name} passes, but is expected to fail ({expected[outcome.name]}); take it out "
        f"of "
        f"expected_failures"
        for outcome in result
        if outcome.result == "pass" and outcome.name in expected
    ]
    if wrong:
        raise PropertyError(
            "\n\n".join(
                [
                    f"model {subject.name}: {count(len(wrong), 'property', 'properties')} of "
                    f"{len(result)} failed",
                    *wrong,
                ]
            )
        )
    return result


def trained_model(evaluator: Evaluator, subject: Subject, source: datasets.Source) -> CheckedModel:
    """Return a model as properties are checked on it: trained on a dataset with seed 0.

    Raises:
        DataError, ModelError: the dataset cannot be loaded, or the model not be trained.
    """
    dataset = evaluator.dataset(source)
    return CheckedModel(
        victim=cast(Victim, evaluator.victim(subject, source, 0).victim),  # it is the user's
        subject=subject,
        dataset=dataset,
        of_graphs=isinstance(dataset, GraphDataset),
        device=evaluator.device,
    )
