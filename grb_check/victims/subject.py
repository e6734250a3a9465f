"""The model to test before it is built: a factory or a finished model, with a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from grb_check.datasets.graph_dataset import AnyDataset
from grb_check.datasets.views import as_given, training_view
from grb_check.errors import UsageError
from grb_check.user_code import factories
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.wrappers import Encoder, SelfTrained, Trained

Model: TypeAlias = "str | Callable[..., object] | Trained | Encoder"


@dataclass(frozen=True)
class Subject:
    """The model to test, before it is built: a factory or a finished model, with a name.

    Attributes:
        key: equal for subjects that are the same, so that one is trained once for many cases.
        name: in reports.
        source: the factory, or the finished model.
        args: keyword arguments of the factory.
        target: `pkg.module:attr`, if the model was given so.
    """

    key: object
    name: str
    source: Callable[..., object] | Trained | Encoder
    args: Mapping[str, object] = field(default_factory=dict)
    target: str = ""

    @property
    def finished(self) -> bool:
        """Whether one model serves all repeats, because there is no factory to make more."""
        return not callable(self.source)

    def build(self, dataset: AnyDataset, seed: int, device: torch.device) -> object:
        """Return what the factory returns for this dataset and seed, or the finished model."""
        if not callable(self.source):
            return self.source
        offered = {
            "data": as_given(training_view(dataset)),
            "num_features": dataset.num_features,
            "num_classes": dataset.num_classes,
            "dataset": dataset.name,
            "seed": seed,
            "device": device,
        }
        with isolated_randomness(seed):
            return factories.call_factory(self.source, offered=offered, given=self.args)


def as_subject(model: Model, args: Mapping[str, object] | None = None, name: str = "") -> Subject:
    """Return the model to test as a `Subject`.

    Args:
        model: `pkg.module:attr`, a factory, or `Trained(...)` or `Encoder(...)`.
        args: keyword arguments for the factory.
        name: for reports.

    Raises:
        UsageError: `model` is something else. For a bare module the message says what to wrap it
            in; for a `SelfTrained`, that a factory must return it, as every repeat trains anew.
    """
    given = dict(args or {})
    if isinstance(model, str):
        factory = factories.load_factory(model)
        key = (model, repr(sorted(given.items())))
        return Subject(key, name or model, factory, given, target=model)
    if isinstance(model, torch.nn.Module):
        raise UsageError(
            f"the model is a module of class {type(model).__name__}; pass "
            f"grb_check.Trained(module) if it is trained, otherwise the factory that makes it"
        )
    if isinstance(model, SelfTrained):
        raise UsageError(
            "the model is a grb_check.SelfTrained, which can be trained only once, but every "
            "repeat trains a new one; pass the factory that makes it, such as "
            "lambda num_features, num_classes: grb_check.SelfTrained(...), or "
            "grb_check.Trained(module) if it is trained"
        )
    if not isinstance(model, (Trained, Encoder)) and not callable(model):
        raise UsageError(
            f"the model is a {type(model).__name__}; pass 'pkg.module:attr', a factory, "
            f"grb_check.Trained(module) or grb_check.Encoder(module)"
        )
    return Subject(model, name or getattr(model, "__name__", type(model).__name__), model, given)
