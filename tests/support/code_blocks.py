"""Code blocks of Markdown pages, and what the comment above each says of it.

    <!-- file: NAME -->    the block is the content of that file
    <!-- illustration -->  it cannot run here: it needs a network, an account or a GPU

Other Python blocks run, all of a page in one namespace. `console` blocks have commands, on lines
that begin with `$ `, each followed by what it writes: `...` stands for anything, and figures with a
decimal point are not compared. `# exit N` after a command is its exit code, if not 0.
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

Use = Literal["file", "illustration", "python", "console", "data"]

MARK = re.compile(r"<!-- (?:file: (?P<file>\S+)|(?P<illustration>illustration)) -->")
EXIT_CODE = re.compile(r"\s# exit (\d+)$")
# Also of percentages, which another processor rounds to the next: `13 to 49 %`, `72 and 33 %`.
FIGURE = re.compile(r"[-+]?\d+\.\d+(?:e[-+]\d+)?|\d+(?: (?:to|and) \d+)* %")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        line: of its fence, from 1.
        use: what is done with it; `data` is neither code nor a command.
        text: its content.
        file: for which it is the content; empty for other uses.
    """

    line: int
    use: Use
    text: str
    file: str = ""


@dataclass(frozen=True)
class Command:
    """A command of a console block, with what a page says of its end."""

    text: str
    output: str
    exit_code: int


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    before: Token | None = None
    for token in MarkdownIt().parse(page.read_text("utf-8")):
        if token.type == "fence":
            yield _block(token, before)
        before = token


def commands_of(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block."""
    head, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not head.strip(), f"line {block.line}: a console block begins with `$ COMMAND`"
    for part in parts:
        lines = part.splitlines()
        size = next(n for n, line in enumerate(lines, 1) if not line.endswith("\\"))
        text = "\n".join(lines[:size])
        code = EXIT_CODE.search(text)
        yield Command(text, "\n".join(lines[size:]), int(code[1]) if code else 0)


def same_output(expected: str, got: str) -> bool:
    """Whether an output is as shown, but for figures, white space and what `...` stands for."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    expected, got = (FIGURE.sub("0.0", text).strip() + "\n" for text in (expected, got))
    return doctest.OutputChecker().check_output(expected, got, flags)


def _block(token: Token, before: Token | None) -> Block:
    line = token.map[0] + 1 if token.map else 0
    marked = before is not None and before.type == "html_block" and MARK.search(before.content)
    if marked and marked["illustration"]:
        return Block(line, "illustration", token.content)
    if marked:
        return Block(line, "file", token.content, marked["file"])
    language = token.info.strip()
    assert language == "console" or not token.content.startswith("$ "), (
        f"line {line}: write ```console for commands, and <!-- illustration --> if they do not run"
    )
    use: Use = language if language in ("python", "console") else "data"  # type: ignore[assignment]
    return Block(line, use, token.content)
