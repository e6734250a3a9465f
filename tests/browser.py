"""Open a page in a headless browser and measure it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Literal

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--timeout=15000",
)
SCHEMES = {"dark": 0, "light": 1}  # of Blink's setting preferredColorScheme
MEASURE = """<script>
addEventListener("load", () => {
  const wide = [...document.querySelectorAll("body *")].filter((each) =>
    !each.closest(".scroll, svg") && each.getBoundingClientRect().right > innerWidth + 1);
  const boxes = [...document.querySelectorAll(".scroll")];
  parent.postMessage(JSON.stringify({
    width: innerWidth,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    beyond: wide.map((each) => each.outerHTML.slice(0, 80)),
    scrolling: boxes.filter((each) => each.scrollWidth > each.clientWidth).length,
    background: getComputedStyle(document.body).backgroundColor,
    color: getComputedStyle(document.body).color,
    requests: performance.getEntriesByType("resource").map((each) => each.name),
    title: document.title,
    lang: document.documentElement.lang,
    sections: [...document.querySelectorAll("main section[id]")].map((each) => each.id),
  }), "*");
});
</script>"""
# The window of the browser is at least 500 pixels wide, but a frame may be narrower.
FRAME = """<!doctype html>
<html style="color-scheme: light dark"><body><script>
addEventListener("message", (event) => { document.body.dataset.seen = event.data; });
</script><iframe src="page.html" style="width: %dpx; height: 900px; border: 0"></iframe>
</body></html>
"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Measurements of a page in the browser.

    Attributes:
        width: of the frame, in pixels.
        overflow: width by which the page exceeds the frame, in pixels.
        beyond: elements outside of scrolling boxes that reach beyond the frame.
        scrolling: number of boxes whose content is wider than they are.
        background: computed background colour of the page.
        color: computed colour of the text.
        requests: addresses that the page requested.
        title: of the page.
        lang: language of the page.
        sections: ids of the sections.
        console: errors and warnings in the console.
    """

    width: int
    overflow: int
    beyond: list[str]
    scrolling: int
    background: str
    color: str
    requests: list[str]
    title: str
    lang: str
    sections: list[str]
    console: list[str]


def browser() -> str:
    """Return the path of a browser; skip the test if there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no headless browser on PATH ({', '.join(NAMES)})")
    return found


def look(
    page: str, folder: Path, *, width: int = 1200, scheme: Literal["dark", "light"] = "light"
) -> Seen:
    """Open a page at a width, with a script that measures it and without the policy against it."""
    copy = folder / "page.html"
    lifted = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    copy.write_text(lifted.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    frame = folder / "frame.html"
    frame.write_text(FRAME % width, encoding="utf-8")
    command = [
        browser(),
        *FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1400,1000",
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
        "--dump-dom",
        frame.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Seen(**json.loads(unescape(found[1])), console=console)
