"""Draw the picture of a run as a file of its own, for pages of the documentation.

pytest --grb-only --grb-model=mypkg:build --grb-json=run.json
python -m benchmarks.picture run.json picture.svg
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from grb_check.reports.digest import digest
from grb_check.reports.html.page import page_text
from grb_check.reports.record_file import read

DRAWING: Final = re.compile(
    r'<svg viewBox="([^"]*)" class="chart dots" role="img">(.*?)</svg>', re.S
)
STYLE: Final = re.compile(r"<style>(.*?)</style>", re.S)


def main(arguments: Sequence[str]) -> int:
    run, out = map(Path, arguments)
    page = page_text([digest(read(run))])
    drawing, style = DRAWING.search(page), STYLE.search(page)
    if drawing is None or style is None:
        raise SystemExit(f"{run} has no case with figures")
    inside = re.sub(r"</?a\b[^>]*>", "", drawing[2])
    out.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{drawing[1]}" class="chart dots">'
        f"<style>{style[1]} svg {{ background: var(--page); font-family: sans-serif; }}</style>"
        f"{inside}</svg>\n",
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
