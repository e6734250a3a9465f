"""Models named on the command line or in the ini file; neither they nor torch are imported."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grb_check.errors import UsageError, count
from grb_check.models.zoo import ZOO
from grb_check.settings.registered_names import BUILT_IN_MODELS
from grb_check.user_code.factories import parse_model_args
from grb_check.user_code.sources import source_digest

EVERY: Final = "zoo"
# Of factories: they do not say what is made.
GENERIC_NAMES: Final = (
    "build",
    "build_model",
    "create",
    "create_model",
    "make",
    "make_model",
    "model",
    "get_model",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """A model that the user names.

    Attributes:
        label: its name.
        target: its factory, as `pkg.module:attr`.
        args: keyword arguments for it, a dict of literals as Python writes it.
        source: digest of the Python files of its package when the run began.
    """

    label: str
    target: str
    args: str = "{}"
    source: str = ""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Keyword arguments for the factory."""
        result: Mapping[str, Any] = literal_eval(self.args)
        return result


def read_models(
    specs: Sequence[str], args: Sequence[str], names: Mapping[str, str] = BUILT_IN_MODELS
) -> tuple[ModelSpec, ...]:
    """Return the models of `[LABEL=]pkg.module:attr` or `[LABEL=]NAME`, each with its arguments.

    Args:
        specs: as given; `zoo` stands for all reference models of nodes.
        args: `NAME=VALUE,...`, none, one for all of them or one for each.
        names: name -> `pkg.module:attr`.

    Raises:
        UsageError: the form of a model, a label or the number of arguments is wrong.
    """
    specs = [entry for spec in specs for entry in (ZOO if spec == EVERY else (spec,))]
    if len(args) not in (0, 1, len(specs)):
        raise UsageError(
            f"--grb-model-args was given {count(len(args), 'time')} for "
            f"{count(len(specs), 'model')}; give it once "
            f"for all or once for each"
        )
    models: list[ModelSpec] = []
    for index, spec in enumerate(specs):
        label, equals, given = spec.rpartition("=")
        target = names.get(given, given)
        arguments = _arguments(args[index if len(args) > 1 else 0]) if args else {}
        module, colon, attribute = target.partition(":")
        if not (module and colon and attribute):
            raise UsageError(
                f"--grb-model {spec!r} must have the form 'pkg.module:attr', such as "
                f"'mypkg:build', or be a name that --grb-list=models shows"
            )
        if not equals:
            label = _free_label(_label(given), [model.label for model in models])
        if any(model.label == label for model in models):
            raise UsageError(f"--grb-model: two models have the label {label!r}; give LABEL=...")
        if not label or set(label) & set(":/[]@* ") or not label.isprintable():
            raise UsageError(
                f"--grb-model {spec!r}: label {label!r} must be of printable characters other than "
                f"':/[]@* '; give another before the '=', or leave the '=' out"
            )
        source = source_digest(target)
        models.append(ModelSpec(label=label, target=target, args=repr(arguments), source=source))
    return tuple(models)


def _arguments(text: str) -> dict[str, Any]:
    try:
        return parse_model_args(text)
    except UsageError as error:
        raise UsageError(f"--grb-model-args: {error}") from None


def _label(given: str) -> str:
    """The name of the factory; that of its module, if the factory's says nothing."""
    module, colon, attribute = given.rpartition(":")
    return module if colon and attribute in GENERIC_NAMES else attribute


def _free_label(label: str, taken: Sequence[str]) -> str:
    numbered = (f"{label}-{number}" for number in range(2, len(taken) + 3))
    return label if label not in taken else next(name for name in numbered if name not in taken)
