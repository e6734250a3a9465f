"""The rules of imports, checked on sources: nothing is imported, so that no import can hide."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

_STATEMENTS = (ast.Import, ast.ImportFrom)
# pytest has loaded these before any plugin.
_FREE = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy"}


@dataclass(frozen=True)
class Import:
    """One imported name.

    Attributes:
        target: dotted; `a.b` for `from a import b`.
        block: first and last line of the import statements that follow each other there.
        late: it stands inside a function.
        typing: it stands under `if TYPE_CHECKING`.
    """

    target: str
    block: tuple[int, int]
    late: bool
    typing: bool


class Tree:
    """The modules of a package.

    Args:
        root: directory of the package, whose name is the package's.
    """

    def __init__(self, root: Path) -> None:
        self.package = root.name
        self.sources: dict[str, str] = {}
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.sources[name] = path.read_text("utf-8")
        self.packages = {path.parts[-2] for path in root.glob("*/*.py")}
        self.imports = {name: tuple(_imports(text)) for name, text in self.sources.items()}
        self.loaded = cache(self._loaded)

    def docstring(self, name: str) -> str:
        return ast.get_docstring(ast.parse(self.sources[name])) or ""

    def home(self, name: str) -> str:
        """Return the package, or the module at the top, that a module belongs to."""
        return name.split(".")[1] if "." in name else "__init__"

    def found(self, target: str) -> str | None:
        """Return the module that an import names, or that holds what it names; None for others'."""
        if target in self.sources:
            return target
        parent = target.rpartition(".")[0]
        return parent if parent in self.sources else None

    def inside(self, name: str) -> Iterator[tuple[Import, str]]:
        """Yield the imports of other modules of the package."""
        for each in self.imports[name]:
            found = self.found(each.target)
            if found not in (None, name) and each.target != f"{self.package}.__version__":
                yield each, str(found)

    def _loaded(self, target: str) -> frozenset[str]:
        """Return the third-party packages that an import loads."""
        start = self.found(target)
        if start is None:
            return frozenset({target.split(".")[0]} - _FREE)
        tops = {
            each.target.split(".")[0]
            for name in self.reached(start)
            for each in self.imports[name]
            if not (each.late or each.typing or self.found(each.target))
        }
        return frozenset(tops - _FREE)

    def reached(self, name: str) -> set[str]:
        """Return the modules that importing a module imports, itself included."""
        return _all_from(name, self._loads)

    def _loads(self, name: str) -> Iterator[str]:
        """Yield the modules that importing a module imports first, packages around it included."""
        if "." in name:
            yield name.rpartition(".")[0]
        for each, found in self.inside(name):
            if not (each.late or each.typing):
                yield found


Broken = Iterator[tuple[str, str]]  # module, and what is wrong with it


def upward(tree: Tree, order: Sequence[str]) -> Broken:
    """Yield the imports of a package that stands later in the order, or of a module at the top."""
    rank = {name: place for place, name in enumerate(order)}
    for name in tree.sources:
        if (home := tree.home(name)) in rank:
            for _, found in tree.inside(name):
                if rank.get(tree.home(found), len(order)) > rank[home]:
                    yield _short(name), f"imports {_short(found)}"


def unlisted(tree: Tree, allowed: Mapping[str, Collection[str]]) -> Broken:
    """Yield the imports of packages that are not among those allowed to the importing package."""
    for name in tree.sources:
        home = tree.home(name)
        for _, found in tree.inside(name):
            other = tree.home(found)
            if home in allowed and other in allowed and other not in {home, *allowed[home]}:
                yield _short(name), f"imports {_short(found)}"


def circles(tree: Tree) -> Broken:
    """Yield the modules that import each other, directly or through others."""
    reach = {name: _all_from(name, lambda each: _ways(tree, each)) for name in tree.sources}
    for name, others in reach.items():
        ring = sorted(_short(other) for other in others if name in reach[other])
        if len(ring) > 1:
            yield _short(name), f"is in a circle of {', '.join(ring)}"


def late(tree: Tree, doors: Collection[str]) -> Broken:
    """Yield the imports inside functions that save nothing, or do not say what they save.

    An import saves something if it loads a third-party package that its module does not load at
    the top. A comment in the block of imports or above it, or the module's docstring, must name one
    that the block loads.

    Args:
        tree: of modules.
        doors: modules that every run of pytest loads: they may import anything late.
    """
    for name in tree.sources:
        comments = _comments(tree.sources[name])
        for block, targets in _late_blocks(tree.imports[name]).items():
            saved = {each: tree.loaded(each) - tree.loaded(name) for each in targets}
            every = sorted(frozenset().union(*saved.values()))
            idle = [each for each in targets if not saved[each]]
            said = [comments.get(line, "") for line in range(block[0] - 1, block[1] + 1)]
            text = " ".join([tree.docstring(name), *said])
            if _short(name) in doors:
                continue
            if idle:
                yield _short(name), f"line {block[0]}: nothing is saved by {', '.join(idle)}"
            elif not any(re.search(rf"\b{package}\b", text) for package in every):
                yield _short(name), f"line {block[0]}: no comment names any of {', '.join(every)}"


def _all_from(start: str, ways: Callable[[str], Iterable[str]]) -> set[str]:
    """Return the modules that can be reached, the first one included."""
    seen, waiting = set[str](), [start]
    while waiting:
        if (name := waiting.pop()) not in seen:
            seen.add(name)
            waiting.extend(ways(name))
    return seen


def _ways(tree: Tree, name: str) -> set[str]:
    return {found for _, found in tree.inside(name)}


def _late_blocks(imports: Iterable[Import]) -> dict[tuple[int, int], list[str]]:
    blocks: dict[tuple[int, int], list[str]] = {}
    for each in imports:
        if each.late:
            blocks.setdefault(each.block, []).append(each.target)
    return blocks


def _imports(source: str) -> Iterator[Import]:
    def visit(node: ast.AST, late: bool, typing: bool) -> Iterator[Import]:
        late = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        inner = ast.iter_child_nodes(node)
        for is_import, group in groupby(inner, lambda each: isinstance(each, _STATEMENTS)):
            children = list(group)
            for child in children:
                if not is_import:
                    checks = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(
                        child.test
                    )
                    yield from visit(child, late, typing or checks)
                    continue
                block = children[0].lineno, children[-1].end_lineno or 0
                prefix = f"{child.module}." if isinstance(child, ast.ImportFrom) else ""
                for each in child.names:
                    yield Import(prefix + each.name, block, late, typing)

    yield from visit(ast.parse(source), False, False)


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {each.start[0]: each.string for each in tokens if each.type == tokenize.COMMENT}


def _short(name: str) -> str:
    return name.partition(".")[2] or "__init__"
