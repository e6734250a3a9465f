"""Figures of one case and of its repeats, of builtin types, so that they can cross processes.

Imports no torch.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import msgspec

from grb_check.attacks.names import split_budget
from grb_check.cases.case import Case
from grb_check.cases.findings import Finding
from grb_check.cases.metrics import relative_drop
from grb_check.cases.target_weights import ACCURACY, BALANCED, effective_number, right_share

UNDEFENDED: Final = ("gcn", "gat", "sage", "gin")  # references of which a default limit is made
# Stages in which a case in doubt is compared with them, each with those before: GraphSAGE, whose
# projection is as wide as the features, is the last, since on 1,639 features its training takes
# five times as long as those of GAT and GIN together.
IN_DOUBT: Final = (("gcn", "gat", "gin"), UNDEFENDED)
# A reference has learned the data if it is this share of the way from the majority class to 1.
LEARNED: Final = 0.1
NO_GRAPH: Final = "mlp"  # the reference that ignores the graph
MAIN_REFERENCE: Final = "gcn"  # the reference that reports, deltas and the clean floor are about
AHEAD: Final = 0.05  # of accuracy beyond that one, attacked likewise, for a model to stand

Method: TypeAlias = Literal["adaptive", "transferred", "score-based", "black-box"]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Accuracies of one model on the targets, clean and attacked, and which targets were right."""

    clean: float
    attacked: float
    right_before: bytes  # packed bits, first target first (numpy.packbits)
    right_after: bytes

    @property
    def drop(self) -> float:
        """Relative drop of the accuracy, at most 1; negative if the attack helped."""
        return relative_drop(self.clean, self.attacked)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Accuracies of a model that the model under test is compared with, in each of its trainings.

    Attributes:
        clean: accuracy without attack, in each training.
        attacked: accuracy under the attack, in the same trainings.
    """

    clean: tuple[float, ...]
    attacked: tuple[float, ...]

    @property
    def drops(self) -> tuple[float, ...]:
        """Relative drop in each training."""
        return tuple(map(relative_drop, self.clean, self.attacked))


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How well the scores of a model tell a class from all others, whatever its threshold.

    Attributes:
        roc_auc: the probability that a node of the class has a higher score than another, equal
            ones counting half (area under the receiver operating characteristic).
        average_precision: the mean of the precisions at each of the nodes of the class.
        false_alarms: share of the nodes of other classes above the threshold.
        other_recall: share of the class's other test nodes above it; None if all are targets.
    """

    roc_auc: float
    average_precision: float
    false_alarms: float
    other_recall: float | None = None


@dataclass(frozen=True, kw_only=True)
class Exact:
    """What an attack that tries everything found, in numbers of targets.

    Attributes:
        tried: number of changes of the graph that were computed.
        right: targets that are right on the clean graph.
        proven: those of them that stay right under every change that the threat allows.
        undecided: those of them of which that is not known: time or rounding ended it.
        basis: `proven`: which nodes a change reaches follows from the model's type, or nothing was
            assumed of it; `checked`: it was compared with the model on some changes alone.
        smallest: number of targets that fall to 1 change, to 2 but to no single one, ...
    """

    tried: int
    right: int
    proven: int
    undecided: int
    basis: str
    smallest: tuple[int, ...] = ()

    @property
    def fallen(self) -> int:
        """Targets with a change under which they are wrong."""
        return self.right - self.proven - self.undecided

    def median_radius(self, most: int) -> tuple[int, int]:
        """Return how many changes at least half of the targets that are right withstand, 0 to most.

        The first number is for undecided targets that withstand none, the second for ones that
        withstand all.

        Args:
            most: changes at a target that were tried.
        """
        least, largest = (self._median_radius(most, lost) for lost in (self.undecided, 0))
        return least, largest

    def _median_radius(self, most: int, lost: int) -> int:
        standing = self.right - lost
        for radius, fallen in enumerate((*self.smallest, *[0] * most)[:most]):
            standing -= fallen
            if 2 * standing < self.right:
                return radius
        return most


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Figures of one case in one repeat: a victim trained and attacked with this seed.

    Attributes:
        seed: of the training and of the attack.
        victim: scores of the model under test.
        references: scores of the models that the model under test is compared with, by name, the
            same in all repeats; empty if those of the case are shipped.
        spent: sizes of the parts of the perturbation that was applied to the victim.
        from_store: whether that perturbation came from the store.
        seconds: total time of this case in this repeat.
        training_seconds: the part of `seconds` spent on building and training the victim (almost 0
            if an earlier case has trained it).
        notes: remarks of the attack, and of how its perturbation was chosen.
        method: source of the perturbation. `adaptive`: an attack on the victim itself;
            `transferred`: the same attack on a surrogate, which was stronger; `score-based`: a
            search by queries, because the victim gives no gradient; `black-box`: the attack of a
            black-box case, made on a surrogate.
        diagnostics: reasons to doubt that the attack was strong enough.
        left_by: what is left of the victim by each method that was tried, in [0, 1]; empty for a
            black-box case.
        member: of `worst`: the strongest attack.
        per_target: of `worst`: the fraction of targets that stay right under every attack.
        pretrained: whether nothing was trained: the victim is declared as finished, or has no
            parameters.
        weights: digest of the victim's parameters and buffers; empty if unknown.
        perturbation: digest of the perturbation that was applied; empty if unknown.
        measured_before: whether all of this came from the store: an earlier run measured it.
        exact: of an attack that tries everything; the attacked accuracy is the proven share.
        rankings: of a recall: of the targets among the test nodes of other classes, on the clean
            graph, and on the attacked one unless each target is attacked on its own; of gangs the
            means of those of each, in a graph of its own. Else empty.
    """

    seed: int
    victim: Scores
    references: Mapping[str, Scores]
    spent: Mapping[str, int]
    from_store: bool
    seconds: float
    training_seconds: float
    notes: tuple[str, ...] = ()
    method: Method = "black-box"
    diagnostics: tuple[Finding, ...] = ()
    left_by: Mapping[Method, float] = field(default_factory=dict)
    member: str = ""
    per_target: float | None = None
    pretrained: bool = False
    weights: str = ""
    perturbation: str = ""
    measured_before: bool = False
    exact: Exact | None = None
    rankings: tuple[Ranking, ...] = ()


def learned(clean: float, majority: float) -> bool:
    """Return whether a clean accuracy is not near that of the majority class, both in [0, 1]."""
    return clean >= majority + LEARNED * (1 - majority)


def _farthest(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the finding of each name that is farthest from its limit, by name."""
    result = sorted(
        findings, key=lambda finding: (finding.name, -abs(finding.figure - finding.limit))
    )
    return tuple({finding.name: finding for finding in reversed(result)}.values())[::-1]


@dataclass(frozen=True, kw_only=True, repr=False)
class Outcome:
    """The figures of one case over its repeats.

    `drop` is the mean of the repeats' relative drops, and `reference_drop` that of the reference
    GCN: under the same perturbations, or, if the attack is white-box, under that attack on the
    reference. `majority` is the accuracy on the targets of a model that predicts their most
    frequent class. `attack` describes the attack with its version and settings; it is empty if a
    change of its output cannot be detected. `threat` describes its budgets. `target_weights` are
    those of balanced accuracy, which all figures are of then, see `balanced_weights`; empty for
    others. `recall` says which recall the figures are; empty if they are none: `majority` is that
    of a model that draws nodes at random then. `changes` were made between what the user gave and
    what the model gets. `shipped` has references that were measured for the release.
    """

    case: Case
    model: str
    targets: int
    majority: float
    dataset: str  # fingerprint of the data
    origin: str
    repeats: tuple[Measurement, ...]
    warnings: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    attack: str = ""
    threat: str = ""
    target_weights: bytes = b""
    recall: str = ""
    shipped: Mapping[str, Reference] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return a short text, because pytest prints it when an assertion on an outcome fails."""
        return (
            f"<Outcome {self.case.id} of {self.model}: clean {self.clean:.1%} -> attacked "
            f"{self.attacked:.1%}, drop {self.drop:.1%}, repeats {len(self.repeats)}>"
        )

    @property
    def clean(self) -> float:
        """Mean clean accuracy over the repeats, in [0, 1]."""
        return statistics.fmean(repeat.victim.clean for repeat in self.repeats)

    @property
    def attacked(self) -> float:
        """Mean attacked accuracy over the repeats, in [0, 1]."""
        return statistics.fmean(repeat.victim.attacked for repeat in self.repeats)

    @property
    def metric(self) -> str:
        """What the figures are of, such as `balanced accuracy`; of a recall, which one."""
        return self.recall or (BALANCED if self.target_weights else ACCURACY)

    @property
    def accuracy(self) -> tuple[float, float]:
        """Mean accuracy over the repeats without and with the attack, whatever the metric."""
        sides = [(repeat.victim.right_before, repeat.victim.right_after) for repeat in self.repeats]
        before, after = (
            statistics.fmean(right_share(bits, self.targets) for bits in side)
            for side in zip(*sides, strict=True)
        )
        return before, after

    @property
    def undecided(self) -> int:
        """Most targets that an attack that tries everything left undecided in a repeat."""
        return max(repeat.exact.undecided if repeat.exact else 0 for repeat in self.repeats)

    @property
    def attacked_at_most(self) -> float:
        """Mean attacked accuracy over the repeats if no undecided target is lost, in [0, 1]."""
        if not self.undecided:
            return self.attacked
        if self.target_weights or self.recall:  # how much the undecided targets weigh is not known
            return self.clean
        return statistics.fmean(
            repeat.victim.attacked + (repeat.exact.undecided / self.targets if repeat.exact else 0)
            for repeat in self.repeats
        )

    @cached_property
    def effective_targets(self) -> int:
        """How many targets of equal weight have the variance of these."""
        return effective_number(self.targets, self.target_weights)

    def mean_ranking(self, figure: Callable[[Ranking], float | None]) -> tuple[float, ...]:
        """Return means over the repeats of a figure of a recall, see `Measurement.rankings`.

        Empty if there is none.
        """
        sides = zip(*(repeat.rankings for repeat in self.repeats), strict=False)
        figures = [[figure(ranking) for ranking in side] for side in sides]
        known = [[value for value in side if value is not None] for side in figures]
        return tuple(statistics.fmean(side) for side in known if side)

    @property
    def adaptive(self) -> bool:
        """Whether the attack saw the model under test; black-box attacks do not."""
        return any(repeat.method != "black-box" for repeat in self.repeats)

    @property
    def drop(self) -> float:
        """Mean relative drop over the repeats."""
        return statistics.fmean(self.drops)

    @property
    def drops(self) -> tuple[float, ...]:
        """Relative drop of each repeat."""
        return tuple(repeat.victim.drop for repeat in self.repeats)

    @property
    def drop_deviation(self) -> float:
        """Sample standard deviation of the drop over the repeats; 0 for one repeat."""
        return statistics.stdev(self.drops) if len(self.repeats) > 1 else 0.0

    @cached_property
    def references(self) -> Mapping[str, Reference]:
        """The models that the model under test is compared with; "gcn" is always there.

        Those that are shipped, or those of the repeats; of `worst`, whose members may have either,
        those of which less is left.
        """
        result = dict(self.shipped)
        for name in self.repeats[0].references:
            sides = [repeat.references[name] for repeat in self.repeats]
            reference = Reference(
                clean=tuple(side.clean for side in sides),
                attacked=tuple(side.attacked for side in sides),
            )
            lower = statistics.fmean(reference.attacked)
            if name not in result or lower < statistics.fmean(result[name].attacked):
                result[name] = reference
        return result

    def has_learned(self, reference: str) -> bool:
        """Whether the clean accuracy of a reference is not near that of the majority class.

        One that has learned nothing has nothing to lose: no limit is made of it.
        """
        return learned(statistics.fmean(self.references[reference].clean), self.majority)

    @property
    def unlearned(self) -> tuple[str, ...]:
        """Names of the references, defences apart, that have not learned the data.

        They make no limit, and no figure of theirs is shown.
        """
        names = sorted(self.references.keys() & {*UNDEFENDED, NO_GRAPH})
        return tuple(name for name in names if not self.has_learned(name))

    @property
    def undefended_references(self) -> Mapping[str, Reference]:
        """By name, the undefended references that have learned the data; they make the limit."""
        names = sorted(self.references.keys() & {*UNDEFENDED} - {*self.unlearned})
        return {name: self.references[name] for name in names}

    @property
    def undefended(self) -> float | None:
        """Attacked accuracy of the least robust of them, in [0, 1]; None if there are none."""
        result = [
            statistics.fmean(reference.attacked)
            for reference in self.undefended_references.values()
        ]
        return min(result, default=None)

    @property
    def no_graph(self) -> float | None:
        """Attacked accuracy of a model that ignores the graph, in [0, 1].

        None if it is unknown, or if that model has not learned the data.
        """
        if NO_GRAPH not in self.references or not self.has_learned(NO_GRAPH):
            return None
        return statistics.fmean(self.references[NO_GRAPH].attacked)

    @property
    def most_robust(self) -> tuple[str, float] | None:
        """Title and attacked accuracy of the most robust known model that has learned the data."""
        for name, reference in self.references.items():
            if name not in (*UNDEFENDED, NO_GRAPH) and self.has_learned(name):
                return name, statistics.fmean(reference.attacked)
        return None

    @property
    def reference_clean(self) -> float:
        """Mean clean accuracy of the reference GCN, in [0, 1]."""
        return statistics.fmean(self.references[MAIN_REFERENCE].clean)

    @property
    def reference_attacked(self) -> float:
        """Mean attacked accuracy of the reference GCN, in [0, 1]."""
        return statistics.fmean(self.references[MAIN_REFERENCE].attacked)

    @property
    def reference_drops(self) -> tuple[float, ...]:
        """Relative drop of the reference GCN in each of its trainings."""
        return self.references[MAIN_REFERENCE].drops

    @property
    def reference_drop(self) -> float:
        """Mean relative drop of the reference GCN."""
        return statistics.fmean(self.reference_drops)

    @property
    def per_target(self) -> float | None:
        """Mean fraction of targets that stay right under every attack, for `worst`; else None."""
        figures = [repeat.per_target for repeat in self.repeats if repeat.per_target is not None]
        return statistics.fmean(figures) if figures else None

    @property
    def budget(self) -> float | None:
        """Return the budget that the case names; None for the default."""
        return split_budget(self.case.attack)[1]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The finding of each diagnostic that is farthest from its limit, over all repeats."""
        return _farthest(finding for repeat in self.repeats for finding in repeat.diagnostics)

    @property
    def seconds(self) -> float:
        """Wall time of all repeats, training included, in seconds."""
        return sum(repeat.seconds for repeat in self.repeats)

    def to_dict(self) -> dict[str, Any]:
        """Return builtin types, ready for JSON; bytes are base64."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Outcome:
        """Return the outcome that `to_dict` was called on."""
        return msgspec.convert(fields, cls)
