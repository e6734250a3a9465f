"""The perturbations that a failed case rests on, as a file that can be replayed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from grb_check.cases.case import Case
from grb_check.cases.metrics import relative_drop
from grb_check.errors import UsageError, one_line
from grb_check.files.npz_file import Unreadable, seal, unseal
from grb_check.files.versions import versions
from grb_check.files.whole import write_whole
from grb_check.gate.limits import Verdict

if TYPE_CHECKING:
    import numpy as np

    from grb_check.attacks.threat import Perturbation

FORMAT: Final = 1
KIND: Final = "evidence"
_ANEW: Final = "run the failed case again, which writes it anew"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a case has to keep; None where nothing is asked.

    Attributes:
        drop: it fails where the relative drop is larger ...
        attacked: ... or the attacked accuracy smaller: the baseline's, less the margin ...
        clean: ... or the clean accuracy smaller.
        rule: where `drop` comes from, for people.
    """

    drop: float | None = None
    attacked: float | None = None
    clean: float | None = None
    rule: str = ""

    def broken(self, clean: float, attacked: float, drop: float | None = None) -> str:
        """What is wrong with these accuracies, for people; empty where nothing is.

        Args:
            clean: in [0, 1], a mean of repeats or that of one.
            attacked: likewise.
            drop: the mean of the repeats' drops; of one repeat it follows.
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
        """The largest drop that such a clean accuracy leaves; None where none is asked."""
        drops = [] if self.drop is None else [self.drop]
        if self.attacked is not None:
            drops.append(relative_drop(clean, self.attacked))
        return min(drops, default=None)


def limits_of(verdict: Verdict | None) -> Limits:
    """What a verdict asked; nothing of a test that judges by itself.

    What failed against the baseline lost more than the margin.
    """
    if verdict is None:
        return Limits()
    compared, least = verdict.comparison, None
    if compared is not None and compared.result == "fail" and compared.before is not None:
        least = compared.before - compared.margin / 100
    return Limits(drop=verdict.limit, attacked=least, clean=verdict.floor, rule=verdict.rule)


@dataclass(frozen=True, kw_only=True)
class KeptModel:
    """The model, where it came by option.

    Attributes:
        name: for reports.
        target: `pkg.module:attr`; empty where a fixture or a call gave an object.
        args: keyword arguments for the factory, as literals.
        folders: of the repository, from which the run imported.
    """

    name: str
    target: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class KeptData:
    """The dataset, and how it was read.

    Attributes:
        spec: as `datasets.find` takes it.
        folders: that were named by the user.
        base: folder of the run; paths below it that are not there are looked for below the working
            folder of the replay.
        fingerprint: of everything that can change an outcome.
        sizes: numbers of what there is, for people.
    """

    spec: str
    split: str
    training: str
    features: str
    folders: tuple[str, ...]
    base: str
    fingerprint: str
    sizes: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class KeptRepeat:
    """One repeat: what the victim faced, and how it fared.

    Attributes:
        seed: of the training and of the attack.
        clean: accuracy before.
        attacked: accuracy after.
        method: how the perturbation was found, see `outcomes.Measurement`.
        member: of `worst`: the attack that this one was.
        weights: digest of the victim's parameters and buffers.
        perturbation: that it faced.
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
        return relative_drop(self.clean, self.attacked)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that it takes to put a model before these perturbations again.

    Attributes:
        case: that failed.
        model: that failed it.
        data: that it was tested on.
        limits: that it broke.
        message: the failure, on one line.
        device: the kind that it ran on.
        repeats: one or more.
        versions: of what figures depend on.
    """

    case: Case
    model: KeptModel
    data: KeptData
    limits: Limits
    message: str
    device: str
    repeats: tuple[KeptRepeat, ...]
    versions: Mapping[str, str] = field(default_factory=versions)


def write(path: Path, evidence: Evidence) -> None:
    """Write it in one step; a folder that is made for it is kept out of version control.

    Raises:
        OSError: it cannot be written.
    """
    if not path.parent.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path.parent / ".gitignore", b"*\n")
    write_whole(path, encode(evidence))


def encode(evidence: Evidence) -> bytes:
    """The content of a file, see `sealed`."""
    from grb_check.attacks.threat import Perturbation

    names = [each.name for each in fields(Perturbation) if each.name != "notes"]
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    heads = []
    for place, repeat in enumerate(evidence.repeats):
        faced = repeat.perturbation
        arrays |= {f"{place}/{name}": getattr(faced, name).detach().numpy() for name in names}
        kept = {each.name: getattr(repeat, each.name) for each in fields(repeat)}
        heads.append({**kept, "perturbation": list(repeat.perturbation.notes)})
    head = {each.name: getattr(evidence, each.name) for each in fields(evidence)}
    parts = {name: asdict(head[name]) for name in ("case", "model", "data", "limits")}
    parts["model"]["args"] = repr(dict(evidence.model.args))  # JSON has no tuples and no sets
    return seal({"format": FORMAT, "kind": KIND, **head, **parts, "repeats": heads}, arrays)


def read(path: Path) -> Evidence:
    """What `write` wrote.

    Raises:
        UsageError: there is no such file, or it is something else.
    """
    try:
        head, arrays = unseal(path.read_bytes())
        if head.get("format") != FORMAT or head.get("kind") != KIND:
            found = f"{head.get('kind')!r} of format {head.get('format')!r}"
            raise Unreadable(f"holds {found}, expected {KIND!r} of format {FORMAT}; {_ANEW}")
        return _decoded(head, arrays)
    except OSError as error:
        raise UsageError(f"evidence {str(path)!r}: {error.strerror}") from None
    except Unreadable as error:
        raise UsageError(f"evidence {str(path)!r} {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError, SyntaxError) as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        raise UsageError(f"evidence {str(path)!r} cannot be read ({why}); {_ANEW}") from None


def _decoded(head: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Evidence:
    import torch

    from grb_check.attacks.threat import Perturbation

    names = [each.name for each in fields(Perturbation) if each.name != "notes"]

    def tensors(place: int) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(arrays[f"{place}/{name}"]) for name in names}

    repeats = [
        KeptRepeat(
            **{
                **each,
                "perturbation": Perturbation(**tensors(place), notes=tuple(each["perturbation"])),
            }
        )
        for place, each in enumerate(head["repeats"])
    ]
    if not repeats:
        raise ValueError("it has no repeats")
    model = {**head["model"], "args": ast.literal_eval(head["model"]["args"])}
    data = {**head["data"], "folders": tuple(head["data"]["folders"])}
    return Evidence(
        case=Case(**head["case"]),
        model=KeptModel(**{**model, "folders": tuple(model["folders"])}),
        data=KeptData(**data),
        limits=Limits(**head["limits"]),
        message=head["message"],
        device=head["device"],
        repeats=tuple(repeats),
        versions=head["versions"],
    )
