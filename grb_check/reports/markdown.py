"""The summary for a step of CI or a comment on a merge request.

It begins with an HTML comment, the marker, with a state and a digest of the verdicts: a job
comments if something failed or is undecided and the digest is another than that of its last
comment, and once when that has ended (docs/how-to/pull-request-comments.md).
Foreign text appears only as code, in which neither GitHub nor GitLab interprets names, numbers,
markup or HTML.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from grb_check.attacks.names import with_budget
from grb_check.cases import counter_example
from grb_check.cases.case import DIFFICULTIES
from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.ranking.lowest import Strongest
from grb_check.reports import audit
from grb_check.reports.case_line import BAD, UNSURE, WORDS, Line
from grb_check.reports.conclusion import conclusions
from grb_check.reports.digest import Digest, changes_in, compared, limits_of
from grb_check.reports.lowest_words import delta_lines, gap_lines
from grb_check.reports.plain import clipped, percent
from grb_check.reports.rank_words import comparison_lines, standing_line

LIMIT: Final = 60_000  # bytes; a comment takes 65,536 characters, a summary 1 MiB
KEPT_BACK: Final = 80  # bytes, for a line on what was cut
FAILED: Final = 15  # cases shown with their message
MESSAGE: Final = 500  # characters of it

SIGNS: Final = {
    "fail": " ❌",
    "error": "❗",
    "missing": "❗",
    "warn": " ⚠️",
    "inconclusive": " ❓",
    "xpass": " xpass",
    "xfail": " xfail",
    "skip": "skip",
    "measured": " ·",
    "pass": "",
}
_LEVEL_SIGNS: Final = {"fail": "❌ ", "pass": "✅ ", "plain": ""}
_RESULTS: Final = {
    "fail": "worse",
    "inconclusive": "undecided",
    "incomparable": "incomparable",
    "new": "new",
    "pass": "not worse",
    "within": "within the margin",
    "equal": "equal",
}


@dataclass(frozen=True)
class Section:
    """Lines that belong together, of which `rows` may be cut.

    Attributes:
        before: lines.
        rows: of which the last are left out if there is no room.
        after: lines.
        what: name of a row, for the note on those left out.
    """

    before: tuple[str, ...]
    rows: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    what: str = "line"


def markdown_text(digests: Sequence[Digest], limit: int = LIMIT) -> str:
    """Return the summary, at most `limit` bytes of UTF-8; parts that do not fit are counted."""
    parts = [part for digest in digests for part in _parts(digest)]
    lines = [f"<!-- grb_check {_state(digests)} {verdicts_digest(digests)} -->"]
    left = limit - KEPT_BACK - _size(lines)
    for part in parts:
        left -= _size((*part.before, *part.after)) + (KEPT_BACK if part.rows else 0)
        if left < 0:
            lines += ["", "*More did not fit here; the HTML report has it.*"]
            break
        shown = part.rows[: _how_many(part.rows, left)]
        left -= _size(shown)
        lines += [*part.before, *shown, *part.after]
        if len(shown) < len(part.rows):
            cut = count(len(part.rows) - len(shown), part.what)
            lines += ["", f"*{cut} more did not fit here.*", ""]
        elif part.rows:
            left += KEPT_BACK
    # GitLab acts on a line that begins with a slash, such as /close, even in some blocks of code.
    return re.sub("^/", " /", "\n".join(lines), flags=re.MULTILINE) + "\n"


def _state(digests: Sequence[Digest]) -> str:
    """Return `failed`, `unsure` or `passed`."""
    if not all(digest.green for digest in digests):
        return "failed"
    return "unsure" if any(digest.unsure for digest in digests) else "passed"


def verdicts_digest(digests: Sequence[Digest]) -> str:
    """Return 16 hexadecimal digits that change with the verdicts of runs, and not with figures."""
    verdicts = sorted(
        f"{status}\n{name}"
        for digest in digests
        for name, status in (
            *((further.name, "fail") for further in digest.further),
            *((digest.name_of(line), line.status) for line in digest.lines),
            *((node_id, "missing") for node_id in digest.unknown),
        )
    )
    text = "\0".join(verdicts).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:16]


def span(text: str) -> str:
    """Return text as code inside a line: no mention, no reference, no markup."""
    flat = " ".join(fit(text).split())
    if not flat:
        return ""
    fence = "`" * (_longest_run(flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def cell(text: str) -> str:
    """Return text as code in a cell of a table, which a bar would end even in code."""
    return span(text.replace("|", "\N{BROKEN BAR}"))


def block(text: str) -> list[str]:
    """Return text as a code block."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return [f"{fence}text", *fit(text).splitlines(), fence]


def _parts(digest: Digest) -> list[Section]:
    return [
        _head(digest),
        _failed(digest),
        _expected(digest),
        *(_heat(digest, group, lines) for group, lines in digest.groups.items()),
        _lowest(digest),
        _baseline(digest),
        _ranks(digest),
        _settings(digest),
    ]


def _head(digest: Digest) -> Section:
    models = list(dict.fromkeys(model for model, _ in digest.groups if model))
    leads = [text for text, _ in digest.leads]
    title = leads[0] if len(leads) == 1 else "Graph robustness"
    lines = [f"## {_LEVEL_SIGNS[digest.sign]}{title}{_largest_loss(digest)}", ""]
    lines += [f"- {span(text)}" for text in leads * (len(leads) > 1)]
    lines += [""] * (len(leads) > 1)
    lines += [digest.headline if digest.green else f"**Failed:** {digest.headline}", ""]
    if digest.name:
        lines += [f"Run: {span(digest.name)}", ""]
    if digest.shard is not None:
        lines += [f"Part {digest.shard.index} of {digest.shard.count} of a run.", ""]
    if models:
        lines += [f"Model{'s' * (len(models) > 1)}: {', '.join(map(span, models))}", ""]
    for text in conclusions(digest.record):
        lines += [span(text), ""]
    over = next((line for line in digest.bad if line.excess), None)
    if over is not None and over.row.outcome is not None:
        lines += [
            f"Farthest beyond its limit: {span(digest.name_of(over))} drops by "
            f"{percent(over.row.outcome.drop)}, {100 * over.excess:.1f} points more than the "
            f"{percent(over.limit)} that pass.",
            "",
        ]
    texts = (*(row.text for row in digest.further), *digest.record.notes)
    further = [f"- {span(text)}" for text in texts]
    return Section((*lines, *further, *([""] if further else [])))


def _largest_loss(digest: Digest) -> str:
    """What the case lost that lost most to the baseline; empty if none lost anything."""
    losses = [
        (line.comparison.loss, line)
        for line in digest.lines
        if line.comparison is not None and line.comparison.loss is not None
    ]
    loss, line = max(losses, key=lambda entry: entry[0], default=(0.0, None))
    if line is None or digest.baseline is None or round(loss, 1) <= 0:
        return ""
    where = f"{span(digest.baseline.path)} ({span(digest.name_of(line))})"
    return f"; loses up to {loss:.1f} points to {where}"


def _failed(digest: Digest) -> Section:
    shown = [*digest.bad, *digest.unsure]
    if not shown and not digest.unknown:
        return Section(())
    rows = ["\n".join(_entry(digest, line)) for line in shown[:FAILED]]
    rows += [f"- {span(digest.name_of(line))} {WORDS[line.status]}" for line in shown[FAILED:]]
    rows += [f"- {span(node_id)} never came back" for node_id in digest.unknown]
    return Section((f"### {digest.trouble}", ""), tuple(rows), ("",), "case")


def _expected(digest: Digest) -> Section:
    words = {"xpass": "unexpected pass", "xfail": "expected failure"}
    rows = [
        f"- **{words[line.status]}** {span(digest.name_of(line))}: "
        f"{span(clipped(line.row.message, MESSAGE))}"
        for line in digest.expected
    ]
    return Section(("### Known failures", ""), tuple(rows), ("",), "case") if rows else Section(())


def _entry(digest: Digest, line: Line) -> list[str]:
    said = clipped(line.first or WORDS[line.status], MESSAGE)
    if line.smallest:
        said += f"\n{counter_example.summary(line.smallest)}"
    text = "\n".join(filter(None, (said, line.replay)))
    word = WORDS[line.status] + ", not failed" * (line.status in UNSURE)
    return [f"**{word}** {span(digest.name_of(line))}", "", *block(text), ""]


def _heat(digest: Digest, group: tuple[str, str], lines: Sequence[Line]) -> Section:
    levels = [name for name in DIFFICULTIES if any(_level(line) == name for line in lines)]
    cells: dict[str, dict[str, Line]] = {}
    for line in lines:
        attacks = cells.setdefault(line.attack, {})
        attacks[_level(line)] = max(attacks.get(_level(line), line), line, key=_drop)
    rows = [
        f"| {cell(attack)} | {' | '.join(neighbour_text(result.get(name)) for name in levels)} |"
        for attack, result in cells.items()
    ]
    title = f"Drops on {span(group[1])}"
    if digest.several_models:
        title += f" of {span(group[0])}"
    head = [f"| attack | {' | '.join(levels)} |", f"| :-- |{' --: |' * len(levels)}"]
    if len(rows) <= 12 and len(digest.groups) <= 2:
        return Section((f"### {title}", "", *head), tuple(rows), ("",), "attack")
    failed = sum(line.status in BAD for line in lines)
    about = count(len(lines), "case") + (f", {failed} failed" if failed else "")
    opened = ("<details>", f"<summary>{about}</summary>", "", *head)
    return Section((f"### {title}", "", *opened), tuple(rows), ("", "</details>", ""), "attack")


def neighbour_text(line: Line | None) -> str:
    if line is None:
        return ""
    outcome = line.row.outcome
    figure = percent(outcome.drop) if outcome is not None else ""
    text = f"{figure}{SIGNS[line.status]}"
    return f"**{text}**" if line.status == "fail" else text


def _lowest(digest: Digest) -> Section:
    lows = digest.summary.lowest
    if not lows:
        return Section(())
    rows = [
        f"| {cell(low.id)} | {_strongest(low.black_box)} | {_strongest(low.adaptive)} |"
        for low in lows
    ]
    audits = [audit.text for audit in audit.audit_conclusions(digest.record)]
    reported = [*audits, *gap_lines(lows)]
    lines = [f"- {span(text)}" for text in reported]
    head = ("| least left (GCN) | black-box | adaptive |", "| :-- | :-- | :-- |")
    before = ("### Attackers who know the model", "", *lines, *([""] if lines else []), *head)
    return Section(before, tuple(rows), ("",), "row")


def _strongest(strongest: Strongest | None) -> str:
    if strongest is None:
        return ""
    return (
        f"{strongest.accuracy.mean:.1%} ({strongest.reference.mean:.1%}) {cell(strongest.attack)}"
    )


def _baseline(digest: Digest) -> Section:
    lines, about = compared(digest), digest.baseline
    comparisons = [(line, line.comparison) for line in lines]
    results = Counter(comparison.result for _, comparison in comparisons if comparison is not None)
    reported = ", ".join(f"{number} {_RESULTS[result]}" for result, number in results.items())
    entries = []
    if about is not None:
        word = "Written to" if about.written else "Compared with"
        entries.append(f"- {word} {span(about.path)}{f': {reported}' if reported else ''}")
        for reference, joint in about.joint_tests:
            entries.append(
                f"- {reference}, {span(joint.scope)}: {_RESULTS[joint.comparison.result]} "
                f"({span(joint.comparison.text)})"
            )
        entries += [f"- {span(note)}" for note in about.notes]
    elif reported:
        entries.append(f"- {reported}")
    for line, comparison in comparisons:
        if comparison is not None and comparison.result in ("fail", "inconclusive", "incomparable"):
            text = span(clipped(comparison.text, MESSAGE))
            entries.append(
                f"- {span(digest.name_of(line))}: {_RESULTS[comparison.result]} ({text})"
            )
    return Section(("### Baseline", ""), tuple(entries), ("",)) if entries else Section(())


def _ranks(digest: Digest) -> Section:
    ranks = digest.record.ranks
    lines = [*map(standing_line, ranks.standings), *comparison_lines(digest.summary.comparisons)]
    lines += [*delta_lines(digest.summary.delta), *ranks.notes]
    rows = [f"- {span(line)}" for line in lines]
    for mean in digest.summary.averages:
        where = span(f"{mean.dataset}/{with_budget(mean.difficulty, mean.budget)}")
        of = f" of {span(mean.model)}" if digest.several_models else ""
        rows.append(
            f"- {where}{of}: clean {mean.clean.mean:.1%}, mean {mean.mean.mean:.1%}, 3 lowest "
            f"{mean.three_lowest.mean:.1%}, weighted {mean.weighted.mean:.1%}"
        )
    if not rows:
        return Section(())
    opened = ("<details>", "<summary>Ranks and averages</summary>", "")
    return Section(opened, tuple(rows), ("", "</details>", ""))


def _settings(digest: Digest) -> Section:
    record, settings = digest.record, digest.record.settings
    models = ", ".join(f"{model.label}={model.target}" for model in settings.models)
    versions = ", ".join(f"{name} {text}" for name, text in record.environment.items())
    rows = [
        f"- models: {span(models)}",
        f"- suite: {span(settings.suite)}, repeats: {settings.repeats}",
        *(
            f"- limit: {span(f'{text} ({origin})' if origin else text)}"
            for text, origin in limits_of(record)
        ),
        *(
            f"- between {span(dataset)} and {span(model)}: {span('; '.join(changes))}"
            for (model, dataset), lines in digest.groups.items()
            if (changes := changes_in(lines))
        ),
        f"- {span(versions)}",
    ]
    opened = ("<details>", "<summary>Settings and versions</summary>", "")
    return Section(opened, tuple(rows), ("", "</details>"))


def _level(line: Line) -> str:
    return line.row.case.difficulty


def _drop(line: Line) -> float:
    return line.row.outcome.drop if line.row.outcome is not None else 2.0


def _how_many(rows: Sequence[str], room: int) -> int:
    sizes = accumulate(_size([row]) for row in rows)
    return sum(size <= room for size in sizes)


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
