"""One dataset on the device, with the models trained on it and the repeats measured so far."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import torch

from grb_check.cases.case import Case
from grb_check.cases.outcomes import Measurement
from grb_check.datasets.views import AnyDataset
from grb_check.errors import ModelError
from grb_check.evaluation.own_models import OwnModels, Ready, predict
from grb_check.evaluation.shared_victims import SharedVictims, victim_key
from grb_check.gradients.victim import Victim
from grb_check.training.building import build_victim
from grb_check.training.training_hook import TrainingHook, train_here
from grb_check.victims.subject import Subject
from grb_check.victims.wrappers import Encoder, Trained, module_of

REPEATS_KEPT: Final = 1000  # a few kilobytes each

Done = tuple[object, Case, int]  # key of the model, case, repeat


@dataclass
class Arena:
    """What the cases of one dataset share.

    Attributes:
        dataset: on the device.
        fingerprint: of the dataset.
        own: the harness's own models on it.
        device: of all of them.
        notices: what loading the dataset warned of.
        shared: the victims that this process and others train once for all; None where it trains
            its own.
        repeats: what was measured, for `worst`; the oldest are forgotten.
    """

    dataset: AnyDataset
    fingerprint: str
    own: OwnModels
    device: torch.device
    notices: tuple[str, ...] = ()
    shared: SharedVictims | None = None
    repeats: dict[Done, Measurement] = field(default_factory=dict)
    _built: dict[tuple[object, int], object] = field(default_factory=dict)  # not yet victims
    _modules: list[object] = field(default_factory=list)  # that factories have made
    _victims: dict[tuple[object, int], Ready | ModelError] = field(default_factory=dict)

    def remember(self, done: Done, repeat: Measurement) -> None:
        """Keep what was measured."""
        while len(self.repeats) >= REPEATS_KEPT:
            self.repeats.pop(next(iter(self.repeats)))
        self.repeats[done] = repeat

    def build(self, subject: Subject, seed: int) -> object:
        """What the factory returns for this seed, called once; it is taken away when trained.

        Raises:
            ModelError: the factory failed, or returned a module again.
        """
        key = (subject.key, seed)
        if key not in self._built:
            built = subject.build(self.dataset, seed, self.device)
            if not (subject.finished or _trained_already(built)):
                module = module_of(built)
                if any(module is other for other in self._modules):
                    raise ModelError(
                        f"model {subject.name}: the factory returned the same module for another "
                        f"seed; make a new one in every call, or return grb_check.Trained(module)"
                    )
                self._modules.append(module)
            self._built[key] = built
        return self._built[key]

    def victim(self, subject: Subject, seed: int, later: Sequence[int] = ()) -> Ready:
        """The model of a repeat, trained once.

        Args:
            subject: the model.
            seed: of the repeat.
            later: seeds that are needed after this one: while another process trains this victim,
                those are trained of which no process does.

        Raises:
            ModelError: it cannot be built, trained or called.
        """
        if subject.finished or isinstance(self._built.get((subject.key, 0)), Trained):
            seed = 0  # what is finished does not change with the seed
        key = (subject.key, seed)
        if key not in self._victims:
            self._train_ahead(subject, seed, later)
            self._prepare(subject, seed)
        ready = self._victims[key]
        if isinstance(ready, ModelError):
            raise ModelError(str(ready))
        return ready

    def _train_ahead(self, subject: Subject, seed: int, later: Sequence[int]) -> None:
        """Claim this victim; while another process trains it, train those that come after."""
        if self.shared is None:
            return
        try:
            if _trained_already(self.build(subject, seed)):
                return
        except ModelError:
            return  # _prepare remembers it
        ahead = iter(later)
        while not self._claim(subject, seed) and (other := next(ahead, None)) is not None:
            if (subject.key, other) not in self._victims and self._claim(subject, other):
                self._prepare(subject, other)

    def _claim(self, subject: Subject, seed: int) -> bool:
        """Whether no other process has begun with this victim."""
        key = victim_key(subject, self.dataset, self.fingerprint, seed)
        return self.shared is None or key is None or self.shared.claim(key)

    def _lesson(self, subject: Subject, seed: int) -> TrainingHook:
        key = victim_key(subject, self.dataset, self.fingerprint, seed)
        if self.shared is None or key is None:
            return train_here
        return self.shared.lesson(key, self.dataset, seed)

    def _prepare(self, subject: Subject, seed: int) -> None:
        """Train a victim, or remember why it cannot be: no case sees it half trained."""
        key = (subject.key, seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                built = self.build(subject, seed)
                victim = build_victim(
                    built,
                    self.dataset,
                    name=subject.name,
                    seed=seed,
                    device=self.device,
                    training_hook=self._lesson(subject, seed),
                )
                fresh = _copy(victim)
                predicted = predict(victim, self.dataset.graph, seed)
                self._victims[key] = Ready(victim, predicted, our_warnings(caught), fresh)
            except ModelError as error:
                self._victims[key] = error
        if not isinstance(self._built.get(key), Trained):
            self._built.pop(key, None)
        for warning in caught:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def our_warnings(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """Texts of the warnings of grb_check among them, each once."""
    texts = [str(w.message) for w in caught if w.category.__module__.startswith("grb_check")]
    return tuple(dict.fromkeys(texts))


def _trained_already(built: object) -> bool:
    """Whether one module may serve several repeats: it is not trained, and used as a copy."""
    return isinstance(built, Trained) or (isinstance(built, Encoder) and built.pretrain is None)


def _copy(victim: Victim) -> Victim | None:
    try:
        return copy.deepcopy(victim)
    except Exception:  # whatever a user's attribute raises; model_checks has warned of it
        return None
