"""Write what pages say of the code: options, commands, models, datasets, attacks and suites.

    python docs/from_code            # write it into the pages
    python docs/from_code --check    # exit with 1 if a page is not as it would be written

What is written stands between two comments, the first of which names it and its arguments:

    <!-- from the code: option_group attacked --grb-only -->
    <!-- end -->
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from attack_sections import attack_overview, attacks, modifiers
from command_sections import commands
from option_sections import missing_options, option_group
from tables import datasets, encoders, models, properties, suites

ROOT: Final = Path(__file__).parents[2]
PLACE: Final = re.compile(
    r"(<!-- from the code: (\w+)((?: [\w-]+)*) -->\n).*?(<!-- end -->\n)", re.DOTALL
)
WRITERS: Final[dict[str, Callable[..., str]]] = {
    each.__name__: each
    for each in (
        attack_overview,
        attacks,
        commands,
        datasets,
        encoders,
        models,
        modifiers,
        option_group,
        properties,
        suites,
    )
}


def written(page: str) -> str:
    """Return the text of a page with what the code says now."""

    def place(found: re.Match[str]) -> str:
        begin, name, arguments, end = found.groups()
        return f"{begin}\n{WRITERS[name](*arguments.split())}\n{end}"

    return PLACE.sub(place, page)


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(prog="python docs/from_code", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    pages = sorted((ROOT / "docs" / "reference").rglob("*.md"))
    texts = {page: page.read_text("utf-8") for page in pages}
    old = {page: new for page, text in texts.items() if (new := written(text)) != text}
    problems = missing_options(texts.values())
    if options.check:
        problems += [
            f"{page.relative_to(ROOT)} is not what the code says: run `python docs/from_code`"
            for page in old
        ]
    else:
        for page, text in old.items():
            page.write_text(text, "utf-8")
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
