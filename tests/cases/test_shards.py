"""Cutting a run into parts: complete, disjoint, balanced, and the same everywhere."""

from __future__ import annotations

import itertools
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.case import Case
from grb_check.cases.shards import Shard, cut, divide, parse_shard
from grb_check.errors import UsageError

CASES = [
    Case("tiny", level, "injection", f"a{number}")
    for level in ("easy", "full")
    for number in range(6)
]
MODELS = [
    Case(dataset, "full", "injection", f"a{number}", model)
    for model in ("", "one", "two")
    for dataset in ("large", "tiny")
    for number in range(3)
]
SECONDS = st.one_of(st.floats(0, 1e5), st.sampled_from([1.0, 60.0]))


def times_of(cases: list[Case]) -> st.SearchStrategy[dict[str, float]]:
    """Durations of some of these cases, and of one that is not there."""
    ids = [*(case.id for case in cases), "gone/easy/injection/a0"]
    return st.dictionaries(st.sampled_from(ids), SECONDS)


@given(
    st.lists(st.sampled_from(MODELS), unique=True),
    times_of(MODELS),
    st.integers(1, 9),
    st.randoms(),
)
def test_shares_are_the_whole_disjoint_and_the_same_in_every_order(
    cases: list[Case], seconds: dict[str, float], count: int, shuffle: random.Random
) -> None:
    """Nothing is lost or run twice, on whichever machine the parts are cut."""
    shares = cut(cases, seconds, count)
    assert len(shares) == count
    assert sorted(itertools.chain(*shares)) == sorted(case.id for case in cases)
    shuffle.shuffle(cases)
    other = dict(shuffle.sample(list(seconds.items()), len(seconds)))
    assert cut(cases, other, count) == shares


def trained(share: Iterable[str]) -> set[str]:
    """The models on datasets that a share has cases of."""
    return {case_id.split("/")[0] for case_id in share}


@given(
    st.lists(st.sampled_from(MODELS), unique=True, min_size=1),
    times_of(MODELS),
    st.integers(1, 9),
)
def test_all_shares_train_few_models_twice(
    cases: list[Case], seconds: dict[str, float], count: int
) -> None:
    """At most one for each share but the first."""
    shares = cut(cases, seconds, count)
    models = trained(case.id for case in cases)
    assert sum(len(trained(share)) for share in shares) <= len(models) + count - 1


def test_each_share_trains_models_of_its_own_where_that_is_even() -> None:
    """Six models on datasets in three parts: two for each, as one run would train them."""
    shares = cut(MODELS, {}, 3)
    assert [len(trained(share)) for share in shares] == [2, 2, 2]
    assert [len(share) for share in shares] == [6, 6, 6]


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_the_longest_share_is_near_the_shortest_possible(
    times: list[float], count: int, models: int
) -> None:
    """At most 1.3 times the best way, found by trying all; a training is ten usual cases long."""
    cases = [
        Case("tiny", "full", "injection", f"a{n}", f"m{n % models}") for n in range(len(times))
    ]
    seconds = {case.id: duration for case, duration in zip(cases, times, strict=True)}
    training = 10 * statistics.median(times)

    def longest(shares: Iterable[Sequence[str]]) -> float:
        return max(
            sum(map(seconds.__getitem__, share)) + training * len(trained(share))
            for share in shares
        )

    ways = itertools.product(range(count), repeat=len(seconds))
    best = min(
        longest(
            [case_id for case_id, at in zip(seconds, way, strict=True) if at == share]
            for share in range(count)
        )
        for way in ways
    )
    assert longest(cut(cases, seconds, count)) <= 1.3 * best + 0.02 * len(times)


def test_a_case_without_a_time_is_given_the_median() -> None:
    """So that a new case neither fills a share nor counts as nothing; what is no time is none."""
    ids = [case.id for case in CASES]
    seconds = {ids[0]: 10.0, ids[1]: 6.0, ids[2]: 2.0}
    assert cut(CASES[:4], seconds, 2) == ((ids[0], ids[2]), (ids[1], ids[3]))
    odd = seconds | {ids[3]: float("nan"), ids[4]: -5.0, ids[5]: 1e306}
    assert cut(CASES[:4], odd, 2) == cut(CASES[:4], seconds, 2)
    assert cut(CASES[:6], odd, 2) == cut(CASES[:6], seconds, 2)
    assert [len(share) for share in cut(CASES, {}, 4)] == [3, 3, 3, 3]
    assert [len(share) for share in cut(CASES, dict.fromkeys(ids, 0.0), 4)] == [3, 3, 3, 3]


def test_a_share_stays_empty_where_another_training_would_save_no_time() -> None:
    """Ten equal cases in eight parts take as long as two each in five."""
    assert [len(share) for share in cut(CASES[:10], {}, 8)] == [2, 2, 2, 2, 2, 0, 0, 0]


def test_a_plan_has_the_parts_cases_in_order_and_a_digest_of_the_cut() -> None:
    """The digest is that of all parts, and another where durations differ."""
    cases = [Case("tiny", "easy", "injection", f"a{number}") for number in (3, 1, 2, 0)]
    parts = [divide(cases, Shard(index, 2), {}) for index in (1, 2)]
    assert [planned_case.attack for planned_case in parts[0].part] == ["a1", "a0"]
    assert [planned_case.attack for planned_case in parts[1].part] == ["a3", "a2"]
    assert parts[0].digest == parts[1].digest
    assert parts[0].cases == tuple(cases)
    assert parts[0].shard == Shard(1, 2)
    seconds = {case.id: 1.0 for case in cases} | {cases[0].id: 9.0}
    assert divide(cases, Shard(1, 2), seconds).digest != parts[0].digest
    assert divide(cases, Shard(1, 3), {}).digest != parts[0].digest
    whole = divide(cases, None, {})
    assert whole.part == whole.cases
    assert (whole.shard, whole.digest) == (None, "")


def test_the_cut_does_not_depend_on_the_hash_seed() -> None:
    """Hashes of strings differ from process to process."""
    code = (
        "from grb_check.cases.case import Case; from grb_check.cases.shards import cut; "
        "cases = {Case('tiny', 'full', 'injection', f'c{i}', f'm{i % 2}') for i in range(20)}; "
        "print(cut(cases, {case.id: int(case.attack[1:]) % 3 for case in cases}, 3))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] != ""


@pytest.mark.parametrize(
    "text",
    ["0/2", "3/2", "1/0", "1", "1-2", "a/b", "-1/2", "1/2/3", "", "1/99999999999", "1/10001"],
)
def test_a_part_has_the_form_i_of_n(text: str) -> None:
    """Other text is refused with the form."""
    with pytest.raises(UsageError, match="give I/N with I from 1 to N and N up to 10,000"):
        parse_shard(text)
    assert parse_shard(" 2 / 4 ") == Shard(2, 4)
