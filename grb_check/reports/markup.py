"""HTML that is escaped by construction: what is no `Html` is text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, TypeAlias

from grb_check.reports.plain import fit


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Content: TypeAlias = str | Iterable["Content"] | None

_WITHOUT_END: Final = frozenset(("meta", "wbr"))


def html(content: Content) -> Html:
    """Content as HTML: strings are escaped, sequences joined, None is nothing."""
    if content is None:
        return Html("")
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return Html(escape(fit(content)))
    return Html("".join(map(html, content)))


def tag(name: str, /, *content: Content, **attributes: str | int | float | None) -> Html:
    """An element; `aria_label` is the attribute aria-label, one that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html(value) if isinstance(value, str) else value}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name in _WITHOUT_END else f"</{name}>"
    return Html(f"<{name}{written}>{html(content)}{end}")


def code(text: str) -> Html:
    """What is to be read letter by letter."""
    return tag("code", breakable(text))


def breakable(text: str) -> Html:
    """A long name, which may go on in the next line after each of its separators."""
    parts = fit(text).replace("/", "/\0").replace("+", "\0+").replace("@", "@\0").split("\0")
    return Html("<wbr>".join(map(escape, parts)))


def table(
    caption: Content, head: Sequence[Content], rows: Iterable[Html], class_: str | None = None
) -> Html:
    """A table with named columns in a box that scrolls where it is too wide.

    Args:
        caption: what it shows.
        head: of the columns.
        rows: made by `row`.
        class_: for the style sheet.
    """
    titles = [tag("th", each, scope="col") for each in head]
    whole = tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", tag("tr", titles)),
        tag("tbody", list(rows)),
        class_=class_,
    )
    label = _text_of(html(caption))
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=label)


def row(head: Content, *cells: Html, id_: str | None = None) -> Html:
    """A row of a table, named by its first cell."""
    return tag("tr", tag("th", head, scope="row"), list(cells), id=id_)


def cell(*content: Content, class_: str | None = None, colspan: int | None = None) -> Html:
    """A cell of a table."""
    return tag("td", *content, class_=class_, colspan=colspan)


def number(text: str) -> Html:
    """A cell with a figure."""
    return cell(text, class_="n")


def _text_of(markup: Html) -> Html:
    """What is left of HTML without its tags."""
    parts = [piece.rpartition(">")[2] for piece in markup.split("<")]
    return Html("".join(parts))
