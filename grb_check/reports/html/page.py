"""Render run records as one HTML page that loads nothing and runs no script.

The templates escape everything by default and fail on names that do not exist. Text in which a
character could break the file or hide what follows is made fit before it is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from grb_check.cases import counter_example
from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.reports.case_line import WORDS
from grb_check.reports.digest import Digest
from grb_check.reports.html.graph_drawing import graph_drawing
from grb_check.reports.html.view import RunView, says_more, sections
from grb_check.reports.plain import clipped, percent, points


def page_text(digests: Sequence[Digest]) -> str:
    """Return the document about one run or several, one after the other."""
    several = len(digests) > 1
    runs = [
        RunView(digest=digest, prefix=f"r{number}-" if several else "", sections=sections(digest))
        for number, digest in enumerate(digests, 1)
    ]
    return ENVIRONMENT.get_template("page.html").render(runs=runs)


def breakable(name: str) -> list[str]:
    """Split a long name where a line may end: after `/` and `@`, before `+`."""
    return re.split(r"(?<=[/@])|(?=\+)", name)


def _fit(value: Any) -> Any:
    """Make what an expression prints fit for a file, unless a macro has made it already."""
    return value if isinstance(value, Markup) else fit(value)


def _environment() -> Environment:
    created = Environment(
        loader=PackageLoader("grb_check.reports.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_fit,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    created.filters |= {
        "breakable": breakable,
        "clipped": clipped,
        "counted": count,
        "example_drawing": graph_drawing,
        "example_fallen": counter_example.fallen,
        "example_lines": counter_example.lines,
        "example_summary": counter_example.summary,
        "percent": percent,
        "points": points,
        "says_more": says_more,
    }
    created.globals["words"] = WORDS
    return created


ENVIRONMENT: Final = _environment()
