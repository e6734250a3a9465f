"""Parsers of options: from the raw values of a run to the value of one option.

Each takes the raw values and the name of the option, and is named in the row of that option in
`settings.options`. They look at no file, but for the kind of a path. Our own modules that load much
are imported inside functions, because every run of pytest loads this one.
"""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from grb_check.errors import UsageError, choose

if TYPE_CHECKING:
    from grb_check.cases.shards import Shard
    from grb_check.ranking.comparison_models import ComparisonModels
    from grb_check.settings.raw_values import RawValues
    from grb_check.store.place import StorePlace

Parser: TypeAlias = "Callable[[RawValues, str], Any]"

FOLDER: Final = ".grb_check"  # in rootdir, of the store and of evidence
STORE_VARIABLE: Final = "GRB_CHECK_STORE"
MOST_JOBS: Final = 1_000
LAST_CLASS: Final = 999_999
LAST_DEVICE: Final = 127  # torch keeps the index in one byte
OFF: Final = "off"


def switch(raw: RawValues, dest: str) -> bool:
    """Return whether a switch is on."""
    return raw.is_set(dest)


def fraction(raw: RawValues, dest: str) -> float | None:
    """Return a fraction such as `0.2` or `20%`; None if none is given."""
    from grb_check.gate.thresholds import parse_fraction

    text = raw.one(dest)
    return None if text is None else parse_fraction(str(text), raw.name(dest))


def verdict(raw: RawValues, dest: str) -> str:
    """Return `pass` or `fail`; `pass` by default."""
    return choose(raw.name(dest), raw.one(dest, "pass"), ("pass", "fail"))


def budgets(raw: RawValues, dest: str) -> tuple[float, ...]:
    """Return shares, ascending, each once."""
    from grb_check.attacks.names import read_budget

    return tuple(sorted({read_budget(text, raw.name(dest)) for text in raw.many(dest)}))


def comparison_models(raw: RawValues, dest: str) -> ComparisonModels:
    """Return the leaderboards, or defences of one, to rank against."""
    from grb_check.ranking.comparison_models import read_comparison_models

    return read_comparison_models(raw.many(dest), lambda text: str(raw.path(dest, text)))


def folders(raw: RawValues, dest: str) -> tuple[str, ...]:
    """Return directories that exist."""
    result = [raw.path(dest, text) for text in raw.many(dest)]
    for folder in result:
        if not folder.is_dir():
            raise UsageError(
                f"{raw.name(dest)} {str(folder)!r} is not a directory; give one that exists"
            )
    return tuple(map(str, result))


def download_sources(raw: RawValues, dest: str) -> tuple[str, ...]:
    """Return where datasets are downloaded from; those of the environment by default."""
    from grb_check.datasets.download.sources import named_sources

    return named_sources(raw.filled(dest) if raw.one(dest) is not None else None)


def path(raw: RawValues, dest: str) -> str:
    """Return an absolute path; empty if none is given."""
    result = raw.maybe_path(dest)
    return "" if result is None else str(result)


def output(raw: RawValues, dest: str) -> str:
    """Return the absolute path of a file to write; empty if none is given."""
    from grb_check.settings.raw_values import read_output

    result = read_output(raw, dest)
    return "" if result is None else str(result)


def output_or_off(raw: RawValues, dest: str) -> str:
    """Return the absolute path of a file to write; empty if none is given, or for `off`."""
    return "" if raw.one(dest) == OFF else output(raw, dest)


def revision(raw: RawValues, dest: str) -> str | None:
    """Return the name of a revision, which is looked for later; None if none is given."""
    given = raw.one(dest)
    if given is not None and not str(given).strip():
        raise raw.empty(dest)
    return None if given is None else str(given)


def class_number(raw: RawValues, dest: str) -> int | None:
    """Return a class; None if none is given."""
    from grb_check.cases.whole_numbers import whole_number

    given = raw.one(dest)
    if given is None:
        return None
    number = whole_number(given, 0, LAST_CLASS)
    if number is None:
        raise UsageError(
            f"{raw.name(dest)} {reprlib.repr(given)} is not a class; give its number, from 0 to "
            f"{LAST_CLASS:,}"
        )
    return number


def points(raw: RawValues, dest: str) -> float:
    """Return a number of accuracy points from 0 on and below 100."""
    from grb_check.gate.baselines.baseline import LOSS_MARGIN

    given = str(raw.one(dest, LOSS_MARGIN))
    result = math.nan
    with suppress(ValueError):
        result = float(given)
    if not 0.0 <= result < 100.0:
        raise UsageError(
            f"{raw.name(dest)} {reprlib.repr(given)} is not a number of accuracy points; give one "
            f"from 0 and below 100, such as 2"
        )
    return result


def store(raw: RawValues, dest: str) -> StorePlace | None:
    """Return the place of the store; None for `off`."""
    from grb_check.store.place import place_of

    given = raw.one(dest)
    named = os.environ.get(STORE_VARIABLE) if given is None else given
    if named == OFF:
        if raw.is_set("grb_resume"):
            raise UsageError(
                f"{raw.name('grb_resume')} takes measurements from the store, which is off; name "
                f"the store of the interrupted run by --grb-store"
            )
        return None
    if given is None:
        return place_of(named or str(raw.rootdir / FOLDER), STORE_VARIABLE)
    place = given if "://" in given else str(raw.path(dest, given))  # a URL is refused
    return place_of(place, raw.name(dest))


def evidence(raw: RawValues, dest: str) -> str:
    """Return the directory of evidence; empty for `off`."""
    given = raw.one(dest)
    if given is None:
        return str(raw.rootdir / FOLDER / "evidence")
    return "" if given == OFF else str(raw.path(dest, given))


def jobs(raw: RawValues, dest: str) -> int | None:
    """Return the number of processes; 0 for `auto`, None for none."""
    from grb_check.cases.whole_numbers import whole_number

    given = raw.one(dest)
    if given is None or str(given).strip() == "auto":
        return None if given is None else 0
    number = whole_number(given, 1, MOST_JOBS)
    if number is None:
        raise UsageError(
            f"{raw.name(dest)} {reprlib.repr(given)} is not a number of processes; give a whole "
            f"number from 1 to {MOST_JOBS:,}, or auto"
        )
    return number


def import_path(raw: RawValues, dest: str) -> str:
    """Return `pkg.module:attr`, not imported; empty if it is not given."""
    return str(raw.one(dest) or "").strip()


def seconds(raw: RawValues, dest: str) -> float | None:
    """Return a number of seconds above 0; None if none is given."""
    given = raw.one(dest)
    if given is None:
        return None
    with suppress(ValueError):
        if 0 < (number := float(str(given))) < math.inf:
            return number
    raise UsageError(
        f"{raw.name(dest)} {reprlib.repr(given)} is not a number of seconds; give one above 0"
    )


def device(raw: RawValues, dest: str) -> str:
    """Return a torch device, or auto."""
    from grb_check.cases.whole_numbers import whole_number

    given = str(raw.one(dest, "auto"))
    kind, colon, index = given.partition(":")
    choose("device", kind, ("auto", "cpu", "cuda", "mps", "xpu"))
    if colon and (kind == "auto" or whole_number(index, 0, LAST_DEVICE) is None):
        raise UsageError(
            f"{raw.name(dest)} {reprlib.repr(given)}: after ':' a number from 0 to {LAST_DEVICE} "
            f"may follow, and none after auto; write it as in 'cuda:0'"
        )
    return given


def shard(raw: RawValues, dest: str) -> Shard | None:
    """Return the shard of the run; None for the whole run."""
    from grb_check.cases.shards import parse_shard

    given = raw.one(dest)
    return None if given is None else parse_shard(str(given))


def origins_of(raw: RawValues) -> Mapping[str, str]:
    """Return the origin of each value; a default of the environment names its variable."""
    origins = raw.origins
    if raw.one("grb_store") is None and os.environ.get(STORE_VARIABLE):
        origins["grb_store"] = f"${STORE_VARIABLE}"
    return origins
