"""Shards that a service numbered: each index once, and clear errors for values that cannot be."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.cases.ci_shards import read_shard, report_support
from grb_check.cases.shards import Shard, cut
from grb_check.errors import UsageError

IDS = [f"tiny/{level}/injection/a{number}" for level in ("easy", "full") for number in range(6)]
Numbered = Callable[[int, int], dict[str, str]]
SLURM = "SLURM_ARRAY_TASK_"


def slurm(first: int, step: int) -> Numbered:
    """Return the variables of task K (from 0) of an array that begins and steps like that."""
    return lambda k, total: {
        f"{SLURM}ID": str(first + step * k),
        f"{SLURM}COUNT": str(total),
        f"{SLURM}MIN": str(first),
        f"{SLURM}MAX": str(first + step * (total - 1)),
        f"{SLURM}STEP": str(step),
    }


def pair(index: str, total: str, first: int = 0) -> Numbered:
    """Return the variables of process K (from 0) of a service with two variables."""
    return lambda k, count: {index: str(k + first), total: str(count)}


SERVICES = {
    "GitLab": pair("CI_NODE_INDEX", "CI_NODE_TOTAL", 1),
    "CircleCI": pair("CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL"),
    "Buildkite": pair("BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT"),
    "Bazel": pair("TEST_SHARD_INDEX", "TEST_TOTAL_SHARDS"),
    "Slurm": slurm(7, 1),
}


def check_partition(name: str, numbered: Numbered, count: int, text: str = "auto") -> None:
    shards = [read_shard(text, numbered(k, count)) for k in range(count)]
    assert {each.source for each in shards} == {name}
    shares = [cut(IDS, {}, each.count)[each.index - 1] for each in shards]
    assert sorted(itertools.chain(*shares)) == sorted(IDS)


@pytest.mark.parametrize("name", SERVICES)
@given(st.integers(1, 14))
def test_the_processes_of_a_service_have_each_case_once(name: str, count: int) -> None:
    """Wherever it begins to count."""
    check_partition(name, SERVICES[name], count)


@given(st.integers(0, 4000), st.integers(1, 99), st.integers(1, 14))
def test_an_array_begins_and_steps_as_it_likes(first: int, step: int, count: int) -> None:
    """As `--array=5-50:15`."""
    check_partition("Slurm", slurm(first, step), count)


@given(st.integers(1, 14))
def test_kubernetes_is_told_the_total(count: int) -> None:
    """Its jobs have an index alone."""
    check_partition(
        "Kubernetes", lambda k, _: {"JOB_COMPLETION_INDEX": str(k)}, count, f"auto/{count}"
    )


def test_numbers_written_by_hand_and_odd_spacing() -> None:
    """Variables are not looked at for I/N; a total that the service confirms may be given."""
    assert read_shard("2/4", SERVICES["GitLab"](0, 3)) == Shard(2, 4)
    assert read_shard("2/4", {}).source == ""
    assert read_shard(" auto / 3 ", SERVICES["GitLab"](1, 3)) == Shard(2, 3)
    assert read_shard("auto", {"CI_NODE_INDEX": " 2 ", "CI_NODE_TOTAL": "3\n"}) == Shard(2, 3)


def test_a_gitlab_job_that_is_not_parallel_is_the_whole() -> None:
    """GitLab gives every job a total, and an index only with `parallel`."""
    assert read_shard("auto", {"CI_NODE_TOTAL": "1"}) == Shard(1, 1)


def test_the_innermost_service_numbers_the_shard() -> None:
    """A job of a CI may start a batch system or a test runner, which hands its variables on."""
    kubernetes = {"JOB_COMPLETION_INDEX": "3"}
    ci = SERVICES["GitLab"](0, 2)
    assert read_shard("auto/9", ci | kubernetes).source == "Kubernetes"
    within = ci | kubernetes | SERVICES["Slurm"](1, 5)
    assert read_shard("auto", within) == Shard(2, 5)
    within |= SERVICES["Bazel"](6, 7)
    assert read_shard("auto", within) == Shard(7, 7)
    assert read_shard("auto", within | dict.fromkeys(SERVICES["Bazel"](0, 1), "")) == Shard(2, 5)


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        (
            "auto",
            {"TEST_SHARD_INDEX": ""},
            r"no environment variable .* looked for TEST_SHARD_INDEX \(Bazel\), "
            r"SLURM_ARRAY_TASK_ID .* CI_NODE_INDEX .* give --grb-shard=I/N",
        ),
        (
            "auto/0",
            SERVICES["GitLab"](0, 2),
            "'auto/0' is not a shard; after auto/ give the number",
        ),
        ("auto/x", SERVICES["GitLab"](0, 2), "'auto/x' is not a shard"),
        ("auto/3", SERVICES["GitLab"](0, 2), r"GitLab has started 2 \(CI_NODE_TOTAL='2'\)"),
        ("automatic", SERVICES["GitLab"](0, 2), "'automatic' is not a shard; give I/N .* or auto"),
        (
            "auto",
            SERVICES["GitLab"](0, 2) | SERVICES["CircleCI"](0, 2),
            "both CI_NODE_INDEX='1' and CIRCLE_NODE_INDEX='0' are set, of GitLab and CircleCI",
        ),
        ("auto", {"CI_NODE_INDEX": "1"}, "CI_NODE_TOTAL is not set, where GitLab has a number"),
        ("auto", {"CI_NODE_TOTAL": "2"}, "CI_NODE_INDEX is not set, where GitLab has a number"),
        ("auto", SERVICES["GitLab"](-1, 2), "CI_NODE_INDEX='0', where GitLab has .* from 1 to 2"),
        ("auto", SERVICES["GitLab"](2, 2), "CI_NODE_INDEX='3', where GitLab has .* from 1 to 2"),
        ("auto", SERVICES["CircleCI"](2, 2), "CIRCLE_NODE_INDEX='2', where .* from 0 to 1"),
        ("auto", SERVICES["Bazel"](0, 10_001), "TEST_TOTAL_SHARDS='10001', .* 1 to 10000"),
        (
            "auto",
            {"BUILDKITE_PARALLEL_JOB": "one", "BUILDKITE_PARALLEL_JOB_COUNT": "2"},
            "BUILDKITE_PARALLEL_JOB='one', where Buildkite has a number from 0 to 1",
        ),
        ("auto", {"JOB_COMPLETION_INDEX": "1"}, "Kubernetes .* give the job's `completions`"),
        ("auto/2", {"JOB_COMPLETION_INDEX": "2"}, "JOB_COMPLETION_INDEX='2', .* from 0 to 1"),
        (
            "auto",
            slurm(1, 1)(3, 3) | {f"{SLURM}MAX": "4"},  # --array=1,2,4
            r"not evenly spaced \(SLURM_ARRAY_TASK_MIN='1', SLURM_ARRAY_TASK_MAX='4', "
            r"SLURM_ARRAY_TASK_STEP='1', SLURM_ARRAY_TASK_COUNT='3'\); submit",
        ),
        (
            "auto",
            slurm(0, 2)(0, 4) | {f"{SLURM}ID": "3"},  # --array=0,2,3,6
            "SLURM_ARRAY_TASK_ID='3', where Slurm has 0 plus a multiple of 2",
        ),
        ("auto", {f"{SLURM}ID": "3", f"{SLURM}COUNT": "4"}, "TASK_MIN is not set"),
    ],
)
def test_values_that_cannot_be_are_refused(
    text: str, environ: dict[str, str], message: str
) -> None:
    """With the variable, its value and what the service sets."""
    with pytest.raises(UsageError, match=message):
        read_shard(text, environ)


def test_bazel_sees_that_its_shards_are_honoured(tmp_path: Path) -> None:
    """It fails tests that run every shard; a shard written by hand may be another one."""
    path = tmp_path / "status"
    environ = SERVICES["Bazel"](1, 3) | {"TEST_SHARD_STATUS_FILE": str(path)}
    report_support(read_shard("2/3", environ), environ)
    assert not path.exists()
    report_support(read_shard("auto", environ), environ)
    assert path.exists()
    report_support(read_shard("auto", environ), SERVICES["Bazel"](1, 3))
    environ["TEST_SHARD_STATUS_FILE"] = str(tmp_path / "none" / "status")
    with pytest.raises(UsageError, match=r"TEST_SHARD_STATUS_FILE='.*' cannot be written"):
        report_support(read_shard("auto", environ), environ)
