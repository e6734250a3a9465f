"""Entries of a baseline made of bits, and changed files, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st
from mutants import new_digest

from grb_check.cases.target_weights import balanced_weights
from grb_check.files.text import fit_line
from grb_check.gate.baselines.files import BaselineCase, BaselineContent, BaselineFile

VERSIONS: Final = {"grb_check": "0.1.0", "torch": "2.13.0"}


def entry(
    right: Sequence[Sequence[bool]],
    weights: Sequence[str] | None = None,
    perturbations: Sequence[str] | None = None,
    **fields: object,
) -> BaselineCase:
    """An entry from which targets are right under the attack, in each repeat; all are without."""
    bits = tuple(np.packbits(np.array(row, bool)).tobytes() for row in right)
    numbers = [f"{number:04x}" for number in range(len(right))]
    given = {
        "dataset": "d" * 16,
        "attack": "an attack v1",
        "threat": "a threat",
        "targets": len(right[0]),
        "seconds": 1.5,
        "before": (np.packbits(np.ones(len(right[0]), bool)).tobytes(),) * len(bits),
        "after": bits,
        "pretrained": False,
        "weights": tuple(numbers if weights is None else weights),
        "perturbations": tuple(numbers if perturbations is None else perturbations),
    }
    return BaselineCase(**{**given, **fields})  # type: ignore[arg-type]


def accuracies(values: Sequence[float], targets: int = 100, name: str = "w") -> BaselineCase:
    """An entry of a model retrained for each repeat, with these attacked accuracies."""
    ranks = np.arange(targets)
    return entry(
        [ranks < round(value * targets) for value in values],
        weights=[f"{name}{number}" for number in range(len(values))],
    )


def saved(cases: Mapping[str, BaselineCase]) -> BaselineFile:
    """A baseline of these entries."""
    return BaselineFile(entries=cases, versions=VERSIONS)


def resealed(file: dict[str, Any]) -> str:
    """The text of a changed file, with the digest of its present content."""
    return json.dumps(file | {"digest": new_digest(file, BaselineContent)})


@st.composite
def entries(draw: st.DrawFn) -> BaselineCase:
    """Any small entry."""
    targets, repeats = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    bits = st.lists(st.booleans(), min_size=targets, max_size=targets)
    right = draw(st.lists(bits, min_size=repeats, max_size=repeats))
    digests = st.text("0123456789abcdef", min_size=4, max_size=4)
    digest_lists = st.lists(digests, min_size=repeats, max_size=repeats)
    texts = st.text(max_size=12).map(fit_line)
    classes = draw(st.lists(st.integers(0, 2), min_size=targets, max_size=targets))
    share = st.floats(0, 1)
    areas = st.lists(st.tuples(share, share), min_size=repeats, max_size=repeats).map(tuple)
    return entry(
        right,
        draw(digest_lists),
        draw(digest_lists),
        attack=draw(texts),
        pretrained=draw(st.booleans()),
        threat=draw(texts),
        seconds=draw(st.floats(0, 1e4).map(lambda value: round(value, 1))),
        target_weights=draw(st.sampled_from([b"", balanced_weights(classes)])),
        areas=draw(st.one_of(st.just(()), areas)),
    )
