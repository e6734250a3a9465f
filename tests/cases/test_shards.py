"""Cutting a run into parts: complete, disjoint, balanced, and the same everywhere."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.case import Case
from grb_check.cases.shards import Shard, cut, divide, parse_shard
from grb_check.errors import UsageError

IDS = [f"tiny/{level}/injection/a{number}" for level in ("easy", "full") for number in range(6)]
SECONDS = st.one_of(st.floats(0, 1e5), st.sampled_from([1.0, 60.0]))
TIMES = st.dictionaries(st.sampled_from([*IDS, "gone/easy/injection/a0"]), SECONDS)


@given(st.lists(st.sampled_from(IDS), unique=True), TIMES, st.integers(1, 9), st.randoms())
def test_shares_are_the_whole_disjoint_and_the_same_in_every_order(
    ids: list[str], seconds: dict[str, float], count: int, shuffle: random.Random
) -> None:
    """Nothing is lost or run twice, on whichever machine the parts are cut."""
    shares = cut(ids, seconds, count)
    assert len(shares) == count
    assert sorted(itertools.chain(*shares)) == sorted(ids)
    assert max(map(len, shares)) > 0 or not ids
    shuffle.shuffle(ids)
    other = dict(shuffle.sample(list(seconds.items()), len(seconds)))
    assert cut(ids, other, count) == shares


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), st.integers(1, 3))
def test_the_longest_share_is_within_grahams_bound(times: list[float], count: int) -> None:
    """4/3 - 1/(3 m) of the best possible one, found by trying all."""
    seconds = dict(zip(IDS, times, strict=False))

    def longest(shares: tuple[tuple[str, ...], ...]) -> float:
        return max(sum(seconds[case_id] for case_id in share) for share in shares)

    ways = itertools.product(range(count), repeat=len(seconds))
    best = min(
        longest(
            tuple(
                tuple(case_id for case_id, at in zip(seconds, way, strict=True) if at == share)
                for share in range(count)
            )
        )
        for way in ways
    )
    rounding = 0.001 * len(times)
    assert longest(cut(seconds, seconds, count)) <= (4 / 3 - 1 / (3 * count)) * best + rounding


def test_a_case_without_a_time_is_given_the_median() -> None:
    """So that a new case neither fills a share nor counts as nothing; what is no time is none."""
    seconds = {IDS[0]: 10.0, IDS[1]: 6.0, IDS[2]: 2.0}
    assert cut(IDS[:4], seconds, 2) == ((IDS[0], IDS[2]), (IDS[1], IDS[3]))
    odd = seconds | {IDS[3]: float("nan"), IDS[4]: -5.0}
    assert cut(IDS[:4], odd, 2) == cut(IDS[:4], seconds, 2)
    assert [len(share) for share in cut(IDS, {}, 4)] == [3, 3, 3, 3]
    assert [len(share) for share in cut(IDS, dict.fromkeys(IDS, 0.0), 4)] == [3, 3, 3, 3]


def test_a_plan_has_the_parts_cases_in_order_and_a_digest_of_the_cut() -> None:
    """The digest is that of all parts, and another where durations differ."""
    cases = [Case("tiny", "easy", "injection", f"a{number}") for number in (3, 1, 2, 0)]
    parts = [divide(cases, Shard(index, 2), {}) for index in (1, 2)]
    assert [planned_case.attack for planned_case in parts[0].part] == ["a2", "a0"]
    assert [planned_case.attack for planned_case in parts[1].part] == ["a3", "a1"]
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
        "from grb_check.cases.shards import cut; "
        "print(cut({f'c{i}' for i in range(20)}, {f'c{i}': i % 3 for i in range(9)}, 3))"
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
