"""Set up a repository: the model in pytest's ini file, and a job of CI that attacks it.

Nothing is asked and nothing is imported. Without --write, the changes are shown and not made.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from grb_check.cli.console import complain, note, say
from grb_check.cli.exit_codes import FAILED, OK
from grb_check.cli.project_setup import (
    WORKFLOWS,
    Change,
    Service,
    gitignore_setup,
    ini_setup,
    repository,
    service,
    workflow_setup,
)
from grb_check.errors import UsageError, count
from grb_check.files.outputs import try_write
from grb_check.session.pytest_private import ini_file, ini_values
from grb_check.settings.model_specs import read_models
from grb_check.user_code.likely_factories import likely_factories

PLACEHOLDER: Final = "PKG.MODULE:FACTORY"
BASELINE: Final = "robustness.json"  # a name that the CI jobs keep as an artifact
SHOWN: Final = 10
NEXT: Final = (
    "pytest --grb-only --collect-only -q  # list the cases",
    "pytest --grb-only  # attack the model and write the baseline: look at it and commit it",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--model",
        metavar="[LABEL=]PKG.MODULE:ATTR",
        help="as --grb-model of a run (default: the only likely factory in the repository)",
    )
    parser.add_argument(
        "--model-args", metavar="NAME=VALUE,...", help="as --grb-model-args of a run"
    )
    parser.add_argument(
        "--ci",
        choices=(*WORKFLOWS, "none"),
        help="service that runs the job (default: that of the repository's files or remote)",
    )
    parser.add_argument("--write", action="store_true", help="make the changes")
    parser.set_defaults(words=lambda error: str(error).replace("--grb-model", "--model"))


def run(options: argparse.Namespace) -> int:
    """Show or make the changes; 0, 1 if a file was not written, 4 if there is no model to write."""
    root = repository(Path.cwd())
    args = [] if options.model_args is None else [options.model_args]
    model = options.model or _model_of(root)
    if options.model is not None:
        read_models([options.model], args)
    if options.write and model == PLACEHOLDER:
        raise UsageError(
            "--write needs to know the model, and the repository has no single likely factory; "
            "give --model pkg.module:attr"
        )
    values = {"grb_model": model, "grb_baseline": BASELINE}
    if args:
        values["grb_model_args"] = args[0]
    setups = [ini_setup(root, values), gitignore_setup(root)]
    where: Service | None = service(root) if options.ci is None else options.ci
    if where is not None and options.ci != "none":
        setups.append(workflow_setup(root, where))
    elif options.ci is None:
        note("no sign of GitHub or GitLab; --ci says which of them runs the job")
    for text in (text for each in setups for text in each.notes):
        note(text)
    changes = [change for each in setups for change in each.changes]
    return _write(root, changes) if options.write else _show(root, changes)


def _model_of(root: Path) -> str:
    """The model of the ini file, or the only likely factory, or a placeholder."""
    path = ini_file(root)
    kept = (ini_values(path) or {}).get("grb_model") if path is not None else None
    if kept:
        return str(kept if isinstance(kept, str) else kept[0])
    found = likely_factories(root)
    if len(found) != 1:
        note(f"{count(len(found), 'likely factory', 'likely factories')} in {root}; give --model")
    for each in found[:SHOWN]:
        note(f"likely factory: {each}")
    return found[0] if len(found) == 1 else PLACEHOLDER


def _show(root: Path, changes: Sequence[Change]) -> int:
    for change in changes:
        name = change.path.relative_to(root).as_posix()
        before = "/dev/null" if change.before is None else f"a/{name}"
        say(
            *difflib.unified_diff(
                (change.before or "").splitlines(),
                change.after.splitlines(),
                before,
                f"b/{name}",
                lineterm="",
            )
        )
    say("nothing was written: give --write to make the changes" if changes else "nothing to change")
    return OK


def _write(root: Path, changes: Sequence[Change]) -> int:
    failed = False
    for change in changes:
        if problem := try_write(change.path, partial(str, change.after)):
            complain(problem)
            failed = True
        else:
            say(f"wrote {change.path.relative_to(root).as_posix()}")
    if failed:
        return FAILED
    say(*([] if changes else ["nothing to change"]), "next:", *(f"  {line}" for line in NEXT))
    return OK
