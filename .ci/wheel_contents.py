"""Check that a wheel holds the package and its fixtures, whole, and nothing else.

Usage: python .ci/wheel_contents.py WHEEL
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ("synthetic-cora", "synthetic-fraud", "synthetic-molecules")
# Without these the wheel installs, and fails or loses its types or licence later.
NEEDED = (
    "grb_check/py.typed",
    "grb_check/plugin.py",
    "grb_check/fixtures/synthetic-cora/adj.npz",
    "grb_check/fixtures/synthetic-fraud/adj.npz",
    "grb_check/fixtures/synthetic-molecules/SYNTHETIC-MOLECULES.zip",
    "grb_check/ranking/boards/shipped/synthetic-cora.json",
    "grb_check/reports/html/templates/page.html",
    "{info}/entry_points.txt",
    "{info}/licenses/LICENSE",
)


def main(wheel: Path) -> str:
    """Return what is wrong, empty if nothing is."""
    names = set(ZipFile(wheel).namelist())
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    found = {name for name in names if not name.startswith(f"{info}/")}
    expected = _below(ROOT / "grb_check", ROOT)
    for name in FIXTURES:
        expected |= {f"grb_check/{path}" for path in _below(ROOT / "fixtures" / name, ROOT)}
    problems = {
        "it lacks": (expected - found) | ({each.format(info=info) for each in NEEDED} - names),
        "it should not have": found - expected,
    }
    return "; ".join(f"{what} {', '.join(sorted(of))}" for what, of in problems.items() if of)


def _below(folder: Path, root: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(root).as_posix() for path in files}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) or None)
