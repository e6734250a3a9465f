"""Shards that a CI service, a test runner or a batch system has numbered.

Each starts the same command several times and numbers the processes in environment variables:

| service | index | total |
|---|---|---|
| Bazel [1] | `TEST_SHARD_INDEX`, from 0 | `TEST_TOTAL_SHARDS` |
| Slurm [2] | `SLURM_ARRAY_TASK_ID`, from `..._MIN` by `..._STEP` | `SLURM_ARRAY_TASK_COUNT` |
| Kubernetes [3] | `JOB_COMPLETION_INDEX`, from 0 | not told |
| GitLab [4] | `CI_NODE_INDEX`, from 1; not set without `parallel` | `CI_NODE_TOTAL`, 1 without it |
| CircleCI [5] | `CIRCLE_NODE_INDEX`, from 0 | `CIRCLE_NODE_TOTAL` |
| Buildkite [6] | `BUILDKITE_PARALLEL_JOB`, from 0 | `BUILDKITE_PARALLEL_JOB_COUNT` |

[1]: https://bazel.build/reference/test-encyclopedia ("Test sharding")
[2]: https://slurm.schedmd.com/job_array.html ("Job ID and environment variables")
[3]: https://kubernetes.io/docs/concepts/workloads/controllers/job ("Completion mode": Indexed)
[4]: https://docs.gitlab.com/ci/variables/predefined_variables
[5]: https://circleci.com/docs/variables ("Built-in environment variables")
[6]: https://buildkite.com/docs/pipelines/configure/environment-variables
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grb_check.cases.shards import MOST_SHARDS, Shard, parse_shard
from grb_check.cases.whole_numbers import whole_number
from grb_check.errors import UsageError

AUTO: Final = "auto"
STATUS_FILE: Final = "TEST_SHARD_STATUS_FILE"
_MOST: Final = 10**15  # of an index; Slurm's own maximum is far below


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service and the environment variables in which it numbers processes.

    Attributes:
        name: shown to users.
        index: variable with the number of this process.
        total: variable with the number of processes; empty if the service does not tell it.
        first: variable with the lowest index, or that index.
        step: variable with the difference between two indices; empty if that is 1.
        last: variable with the highest index; empty if the service does not tell it.
    """

    name: str
    index: str
    total: str = ""
    first: str | int = 0
    step: str = ""
    last: str = ""


BAZEL: Final = Service(name="Bazel", index="TEST_SHARD_INDEX", total="TEST_TOTAL_SHARDS")
# From the inside to the outside: each of these may have been started by a job of a CI.
NESTED: Final = (
    BAZEL,
    Service(
        name="Slurm",
        index="SLURM_ARRAY_TASK_ID",
        total="SLURM_ARRAY_TASK_COUNT",
        first="SLURM_ARRAY_TASK_MIN",
        step="SLURM_ARRAY_TASK_STEP",
        last="SLURM_ARRAY_TASK_MAX",
    ),
    Service(name="Kubernetes", index="JOB_COMPLETION_INDEX"),
)
GITLAB: Final = Service(name="GitLab", index="CI_NODE_INDEX", total="CI_NODE_TOTAL", first=1)
HOSTS: Final = (
    GITLAB,
    Service(name="CircleCI", index="CIRCLE_NODE_INDEX", total="CIRCLE_NODE_TOTAL"),
    Service(name="Buildkite", index="BUILDKITE_PARALLEL_JOB", total="BUILDKITE_PARALLEL_JOB_COUNT"),
)


def read_shard(text: str, environ: Mapping[str, str]) -> Shard:
    """Read `I/N`, or `auto` or `auto/N`, which take the shard from environment variables.

    Of several services, the innermost numbers the shard: Bazel, then Slurm, then Kubernetes, then
    the CI service, since a job of a CI may start any of them and then runs all of their shards.

    Args:
        text: of `--grb-shard`.
        environ: environment variables; an empty one is as one that is not set.

    Raises:
        UsageError: the text has another form; no service or two CI services are found; a variable
            is missing, is not a number or is out of range; or N is not the total of the service.
    """
    name, slash, total = text.strip().partition("/")
    if name.strip() != AUTO:
        return parse_shard(text)
    count = whole_number(total, 1, MOST_SHARDS) if slash else None
    if slash and count is None:
        raise UsageError(
            f"--grb-shard {reprlib.repr(text)} is not a shard; after auto/ give the number of "
            f"shards, from 1 to {MOST_SHARDS:,}, as in auto/8"
        )
    told = {name: value.strip() for name, value in environ.items() if value.strip()}
    return _numbered(_service(told), told, count)


def report_support(shard: Shard, environ: Mapping[str, str]) -> None:
    """Touch the file by which Bazel sees that a test runs its own shard alone.

    Raises:
        UsageError: the file cannot be written.
    """
    path = environ.get(STATUS_FILE, "")
    if shard.source != BAZEL.name or not path:
        return
    try:
        Path(path).touch()
    except OSError as error:
        raise UsageError(
            f"{STATUS_FILE}={reprlib.repr(path)} cannot be written ({error.strerror}), and Bazel "
            f"fails shards that do not touch it; give --grb-shard=I/N outside of Bazel"
        ) from error


def _service(told: Mapping[str, str]) -> Service:
    """Return the service that numbered this process."""
    for service in NESTED:
        if service.index in told or service.total in told:
            return service
    hosts = [each for each in HOSTS if each.index in told or each.total in told]
    if len(hosts) > 1:
        raise UsageError(
            f"--grb-shard=auto: both {_shown(hosts[0].index, told)} and "
            f"{_shown(hosts[1].index, told)} are set, of {hosts[0].name} and {hosts[1].name}; "
            f"unset those of one, or give --grb-shard=I/N"
        )
    if not hosts:
        names = ", ".join(f"{each.index} ({each.name})" for each in (*NESTED, *HOSTS))
        raise UsageError(
            f"--grb-shard=auto: no environment variable numbers this process; looked for {names}; "
            f"give --grb-shard=I/N, on GitHub as --grb-shard=${{{{ matrix.part }}}}/4"
        )
    return hosts[0]


def _numbered(service: Service, told: Mapping[str, str], count: int | None) -> Shard:
    """Return the shard that a service gives this process; `count` is that of the option."""
    if service is GITLAB and service.index not in told and told[service.total] == "1":
        told = {**told, service.index: "1"}  # a job without `parallel`
    if service.total:
        total = _number(service, service.total, told, 1, MOST_SHARDS)
        if count not in (None, total):
            raise UsageError(
                f"--grb-shard=auto/{count}: {service.name} has started {total} "
                f"({_shown(service.total, told)}); give --grb-shard=auto"
            )
    elif count is None:
        raise UsageError(
            f"--grb-shard=auto: this process has a number from {service.name} "
            f"({_shown(service.index, told)}), which does not tell how many there are; give the "
            f"job's `completions`, as in --grb-shard=auto/8"
        )
    else:
        total = count
    first = service.first
    if isinstance(first, str):
        first = _number(service, first, told, 0, _MOST)
    step = _number(service, service.step, told, 1, _MOST) if service.step else 1
    last = first + step * (total - 1)
    if service.last and _number(service, service.last, told, 0, _MOST) != last:
        shown = ", ".join(
            _shown(name, told)
            for name in (str(service.first), service.last, service.step, service.total)
        )
        raise UsageError(
            f"--grb-shard=auto: the indices of the array are not evenly spaced ({shown}); submit "
            f"it with a range, as --array=1-{total}, or give --grb-shard=I/N"
        )
    index = _number(service, service.index, told, first, last)
    if (index - first) % step:
        raise _refused(service, service.index, told, f"{first} plus a multiple of {step}")
    return Shard((index - first) // step + 1, total, source=service.name)


def _number(service: Service, name: str, told: Mapping[str, str], least: int, most: int) -> int:
    """Return the number in a variable; raises `UsageError` if there is none in the range."""
    number = whole_number(told.get(name, ""), least, most)
    if number is None:
        raise _refused(service, name, told, f"a number from {least} to {most}")
    return number


def _refused(service: Service, name: str, told: Mapping[str, str], allowed: str) -> UsageError:
    return UsageError(
        f"--grb-shard=auto: {_shown(name, told)}, where {service.name} has {allowed}; check what "
        f"sets it, or give --grb-shard=I/N"
    )


def _shown(name: str, told: Mapping[str, str]) -> str:
    return f"{name}={reprlib.repr(told[name])}" if name in told else f"{name} is not set"
