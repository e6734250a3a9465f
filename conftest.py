"""Shared by all tests of the project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# How long an example takes says more of what else the machine does than of the code.
settings.register_profile(
    "untimed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("same", settings.get_profile("untimed"), derandomize=True)
settings.load_profile("same")
SHARE = 4  # of the examples of a property, one in so many is tried without --thorough

# Read when torch and numpy are loaded: idle threads sleep, and small products are not divided among
# threads, so that a busy machine does not slow tests down.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Runs inside tests are not to write into the summary of the step that runs the tests, nor annotate
# its commit; and they write to a log, though a worker of pytest-xdist gives them a width.
for _name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "COLUMNS"):
    os.environ.pop(_name, None)

REAL_DATA_VARIABLE = "GRB_CHECK_REAL_DATA"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--mutants",
        type=int,
        default=200,
        help="number of damaged files that each slow test of readers tries; after a change of a "
        "reader, run --thorough -k many --mutants=2000",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run slow tests too, and all examples of properties, with another seed each time "
        "(in CI with the same)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--thorough") and "CI" not in os.environ:
        settings.load_profile("untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests and most examples, unless single tests are named or all is wanted."""
    if config.getoption("--thorough") or any("::" in arg for arg in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in set(slow)]
    tests = {getattr(item.obj, "__func__", item.obj) for item in items if hasattr(item, "obj")}
    for test in tests:
        # The attribute in which hypothesis keeps the settings of a test.
        declared = getattr(test, "_hypothesis_internal_use_settings", None)
        if declared is not None:
            fewer = max(declared.max_examples // SHARE, min(declared.max_examples, 5))
            test._hypothesis_internal_use_settings = settings(declared, max_examples=fewer)


@pytest.fixture(autouse=True)
def same_draws() -> Iterator[None]:
    """Global random states are the same for each test, whatever ran before it."""
    from grb_check.user_code.randomness import isolated_randomness

    with isolated_randomness(0):
        yield


@pytest.fixture(scope="session", autouse=True)
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Send downloads, generated graphs and checksums to a directory of this test run."""
    home = tmp_path_factory.mktemp("data-home")
    before = os.environ.get("GRB_CHECK_DATA")
    os.environ["GRB_CHECK_DATA"] = str(home)
    yield home
    if before is None:
        del os.environ["GRB_CHECK_DATA"]
    else:
        os.environ["GRB_CHECK_DATA"] = before


@pytest.fixture(params=["few", pytest.param("many", marks=pytest.mark.slow)])
def how_many(request: pytest.FixtureRequest) -> int:
    """The number of damaged files that a test reads."""
    return 60 if request.param == "few" else int(request.config.getoption("--mutants"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the directory of real graphs; tests that need it are skipped without it."""
    default = Path(__file__).resolve().parent.parent / "shared" / "data"
    folder = Path(os.environ.get(REAL_DATA_VARIABLE, default))
    if not folder.is_dir():
        pytest.skip(f"no real graphs: {REAL_DATA_VARIABLE} names no folder ({folder})")
    return folder
