"""Evidence of a failed case: its perturbations and limits, in a file that can be replayed.

Imports torch only when perturbations are read or written.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, MsgspecError, convert

from grb_check.attacks.names import split_budget
from grb_check.attacks.scenarios import SCENARIOS
from grb_check.cases.case import DIFFICULTIES, Case
from grb_check.cases.metrics import relative_drop
from grb_check.cases.verdicts import Verdict
from grb_check.errors import UsageError, one_line
from grb_check.files.npz_file import Unreadable, seal, unseal
from grb_check.files.outputs import write_whole
from grb_check.files.text import fit_all
from grb_check.files.versions import versions

if TYPE_CHECKING:
    import numpy as np

    from grb_check.attacks.threat import Perturbation

FORMAT: Final = 1
KIND: Final = "evidence"
_AGAIN: Final = "run the failed case again to write a new file"
_DAMAGE: Final = (
    *(KeyError, TypeError, AttributeError, ValueError, SyntaxError),
    *(RecursionError, MemoryError, MsgspecError),
)


@dataclass(frozen=True, kw_only=True)
class CaseLimits:
    """Limits of a case; None for a limit that is not set.

    Attributes:
        drop: largest relative drop.
        attacked: smallest attacked accuracy: that of the baseline, less the margin.
        clean: smallest clean accuracy.
        rule: origin of `drop`, for messages.
    """

    drop: float | None = None
    attacked: float | None = None
    clean: float | None = None
    rule: str = ""

    def broken(self, clean: float, attacked: float, drop: float | None = None) -> str:
        """Return the limit that is broken, as a message; empty if all are kept.

        Args:
            clean: accuracy in [0, 1], of one repeat or the mean of several.
            attacked: likewise.
            drop: mean of the repeats' drops; by default that of the two accuracies.
        """
        drop = relative_drop(clean, attacked) if drop is None else drop
        if self.clean is not None and clean < self.clean:
            return f"clean accuracy {clean:.1%} < floor {self.clean:.1%}"
        if self.drop is not None and drop > self.drop:
            return f"drop {drop:.1%} > limit {self.drop:.1%}"
        if self.attacked is not None and attacked < self.attacked:
            return f"attacked accuracy {attacked:.1%} < {self.attacked:.1%} of the baseline"
        return ""

    def as_drop(self, clean: float) -> float | None:
        """The largest drop allowed at this clean accuracy; None if there is no limit."""
        drops = [] if self.drop is None else [self.drop]
        if self.attacked is not None:
            drops.append(relative_drop(clean, self.attacked))
        return min(drops, default=None)


def limits_of(verdict: Verdict | None) -> CaseLimits:
    """Limits of a verdict; none if the test judges by itself.

    A case that failed against the baseline lost more than the margin.
    """
    if verdict is None:
        return CaseLimits()
    compared, least = verdict.comparison, None
    if compared is not None and compared.result == "fail" and compared.before is not None:
        least = compared.before - compared.margin / 100
    return CaseLimits(drop=verdict.limit, attacked=least, clean=verdict.floor, rule=verdict.rule)


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """The model that failed.

    Attributes:
        name: for reports.
        target: `pkg.module:attr`; empty if a fixture or a call gave an object.
        args: keyword arguments for the factory, as literals.
        folders: of the repository, from which the run imported.
    """

    name: str
    target: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SavedDataset:
    """The dataset, and how it was read.

    Attributes:
        spec: for `datasets.find`.
        split: rule of the split.
        training: inductive or transductive.
        features: rule of the features.
        folders: named by the user.
        base: folder of the run; paths below it that do not exist are looked up below the working
            folder of the replay.
        fingerprint: of everything that can change an outcome.
        sizes: numbers of nodes, edges, ..., for messages.
        metric: what figures are of.
    """

    spec: str
    split: str | None
    training: str
    features: str | None
    folders: tuple[str, ...]
    base: str
    fingerprint: str
    sizes: Mapping[str, int]
    metric: str | None = None


@dataclass(frozen=True, kw_only=True)
class SavedRepeat:
    """One repeat: the perturbation that was applied, and its result.

    Attributes:
        seed: of the training and of the attack.
        clean: accuracy before.
        attacked: accuracy after.
        method: how the perturbation was found, see `outcomes.Measurement`.
        member: of `worst`: the strongest attack.
        weights: digest of the victim's parameters and buffers.
        perturbation: applied to the victim.
    """

    seed: int
    clean: float
    attacked: float
    method: str
    member: str
    weights: str
    perturbation: Perturbation

    @property
    def drop(self) -> float:
        """Relative drop of the accuracy."""
        return relative_drop(self.clean, self.attacked)


@dataclass(frozen=True, kw_only=True)
class _RepeatHead:
    """The fields of a `SavedRepeat` in the head of the file; of its perturbation the notes."""

    seed: Annotated[int, Meta(ge=0, lt=2**32)]
    clean: Annotated[float, Meta(ge=0.0, le=1.0)]
    attacked: Annotated[float, Meta(ge=0.0, le=1.0)]
    method: str
    member: str
    weights: str
    perturbation: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything needed to apply the perturbations of a failed case to a model again.

    Attributes:
        case: that failed.
        model: under test.
        data: the dataset.
        limits: of the case.
        message: of the failure, in one line.
        device: its kind, such as cpu.
        repeats: one or more.
        versions: of the libraries that figures depend on.
    """

    case: Case
    model: SavedModel
    data: SavedDataset
    limits: CaseLimits
    message: str
    device: str
    repeats: tuple[SavedRepeat, ...]
    versions: Mapping[str, str] = field(default_factory=versions)


def write(path: Path, evidence: Evidence) -> None:
    """Write a file whole; a folder that is made for it is ignored by version control.

    Raises:
        OSError: it cannot be written.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path.parent / ".gitignore", b"*\n")
    write_whole(path, encode(evidence))


def encode(evidence: Evidence) -> bytes:
    """Return the content of a file, see `files.npz_file`."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    heads = []
    for position, repeat in enumerate(evidence.repeats):
        part = repeat.perturbation
        named = part.named_tensors()
        arrays |= {f"{position}/{name}": tensor.detach().numpy() for name, tensor in named.items()}
        values = {attribute.name: getattr(repeat, attribute.name) for attribute in fields(repeat)}
        heads.append({**values, "perturbation": list(part.notes)})
    head = {attribute.name: getattr(evidence, attribute.name) for attribute in fields(evidence)}
    parts = {name: asdict(head[name]) for name in ("case", "model", "data", "limits")}
    parts["model"]["args"] = repr(dict(evidence.model.args))  # JSON has no tuples and no sets
    return seal({"format": FORMAT, "kind": KIND, **head, **parts, "repeats": heads}, arrays)


def read(path: Path) -> Evidence:
    """Read a file that `write` wrote.

    Raises:
        UsageError: the file cannot be read, or is not evidence.
    """
    try:
        head, arrays = unseal(path.read_bytes())
        if head.get("format") != FORMAT or head.get("kind") != KIND:
            result = f"{head.get('kind')!r} of format {head.get('format')!r}"
            raise Unreadable(f"holds {result}, expected {KIND!r} of format {FORMAT}; {_AGAIN}")
        return _decoded(fit_all(head), arrays)
    except OSError as error:
        raise UsageError(f"evidence {str(path)!r}: {error.strerror}") from None
    except Unreadable as error:
        raise UsageError(f"evidence {str(path)!r} {error}") from None
    except UsageError as error:  # the budget in the attack's name
        raise UsageError(f"evidence {str(path)!r} cannot be read ({error}); {_AGAIN}") from None
    except _DAMAGE as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        raise UsageError(f"evidence {str(path)!r} cannot be read ({why}); {_AGAIN}") from None


def _decoded(head: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Evidence:

    from grb_check.attacks.threat import perturbation_of

    repeats = []
    for position, repeat_head in enumerate(head["repeats"]):
        start = f"{position}/"
        repeat_arrays = {
            key.removeprefix(start): arrays[key] for key in arrays if key.startswith(start)
        }
        created = convert(repeat_head, _RepeatHead)
        perturbation = perturbation_of(repeat_arrays, created.perturbation)
        repeats.append(SavedRepeat(**{**asdict(created), "perturbation": perturbation}))
    if not repeats:
        raise ValueError("it has no repeats")
    case = convert(head["case"], Case)
    if case.difficulty not in DIFFICULTIES or case.scenario not in SCENARIOS:
        raise ValueError(f"there is no case {case.id!r}")
    split_budget(case.attack)
    model = {**head["model"], "args": ast.literal_eval(head["model"]["args"])}
    return Evidence(
        case=case,
        model=convert(model, SavedModel),
        data=convert(head["data"], SavedDataset),
        limits=convert(head["limits"], CaseLimits),
        message=convert(head["message"], str),
        device=convert(head["device"], str),
        repeats=tuple(repeats),
        versions=convert(head["versions"], dict[str, str]),
    )
