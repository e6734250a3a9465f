"""The contracts of pyproject.toml hold, and an unused plugin costs little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.api import read_configuration
from importlinter.cli import lint_imports

import grb_check

ROOT = Path(__file__).parents[2]


def test_packages_are_imported_in_their_order() -> None:
    """That of docs/architecture.md, for imports inside functions too."""
    config = str(ROOT / "pyproject.toml")
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    picture = text.partition("```text\n")[2].partition("```")[0].splitlines()
    order = [line.split()[0] for line in picture if line[:1].isalpha()]
    layers = read_configuration(config)["contracts_options"][0]["layers"]
    assert [name for name in reversed(layers) if name in order] == order
    assert lint_imports(config_filename=config, no_cache=True) == 0


def test_an_unused_plugin_loads_the_table_of_options_and_little_else() -> None:
    """Every run of pytest where the package is installed pays for these modules."""
    code = "import sys, pytest, grb_check.plugin; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = done.stdout.split()
    assert not {"torch", "numpy", "scipy", "msgspec", "jinja2"} & set(loaded)
    assert {name.partition(".")[2] for name in loaded if name.startswith("grb_check")} == {
        "",
        "errors",
        "hookspecs",
        "plugin",
        "session",
        "runs",
        "runs.workers",
        "runs.workers.resources",
        "session.worker_gpus",
        "settings",
        "settings.options",
        "settings.parsers",
        "settings.pytest_options",
    }


@pytest.mark.slow
def test_no_run_loads_all_of_scipy_stats() -> None:
    """It takes a second of every run; `scipy.special` has what most tests need."""
    code = (
        "import sys, grb_check\n"
        "grb_check.run('m=grb_check.models:mlp', difficulty='full', attack='modification/rnd', "
        "repeats=1, max_drop=1.0, store='off')\n"
        "print('scipy.stats' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["False True"], done.stderr


def test_every_public_name_has_a_home() -> None:
    for name in grb_check.__all__:
        assert getattr(grb_check, name) is not None
