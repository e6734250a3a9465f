"""A run without pytest: `grb_check.run` gives the run record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import node_id_of
from grb_check.cases.shards import divide
from grb_check.errors import GrbCheckError, LostError
from grb_check.gate.limits import judge_result
from grb_check.reports.record import RunRecord, environment_of
from grb_check.runs.finish import EndedRun, finish
from grb_check.runs.inputs import open_inputs, with_digests
from grb_check.runs.measuring import Measuring, joined
from grb_check.runs.start import calls_for
from grb_check.runs.tasks import ModelOnDataset
from grb_check.settings.python_options import read_python
from grb_check.settings.selecting import cases_of, source_of
from grb_check.settings.settings import RunSettings


def run(model: str | Sequence[str], **options: Any) -> RunRecord:
    """Run cases without pytest.

    >>> import grb_check
    >>> record = grb_check.run("mypkg:build", difficulty="easy", jobs=2)  # doctest: +SKIP
    >>> [case.id for case in record.cases if case.result == "fail"]  # doctest: +SKIP
    ['synthetic-cora/easy/injection/fgsm']

    With `jobs`, other processes may import the script that calls this function: call it below
    `if __name__ == "__main__":` then.

    Args:
        model: as for `--grb-model`: `[LABEL=]pkg.module:attr` or a name; or several.
        options: of the command line, without `--grb-` and with `_`: suite, dataset, difficulty,
            attack, budget, case, repeats, max_drop, min_clean, threshold,
            strict_diagnostics, model_args, data, download, sources, split, training, features,
            metric, positive, device, store, pack, jobs, executor, timeout, resume. One that may
            be repeated takes a list as well.

    Returns:
        What `--grb-json` writes. A case whose model or attack raised has the result `error` and the
        message; one whose worker was lost twice is in `missing`.

    Raises:
        UsageError, DataError, ModelError: before any work.
    """
    registry = AttackRegistry()
    inputs = open_inputs(read_python({**options, "model": model}, registry), Path.cwd())
    settings = with_digests(inputs.settings, registry)
    cases = cases_of(settings)
    calls = calls_for(settings, settings.repeats * len(cases))
    with closing(Measuring(calls, settings, _model_of(settings))) as measuring:
        measuring.check(cases, settings.repeats)
        measuring.submit_all(dict.fromkeys(cases, settings.repeats), {})
        rows, missing = [], []
        for case in cases:
            try:
                rows.append(_row(settings, case, measuring, len(cases)))
            except LostError:
                missing.append(node_id_of(case))
            except GrbCheckError as error:
                failed = CaseRecord(
                    id=case.id, node_id=node_id_of(case), result="error", message=str(error)
                )
                rows.append(failed)
        environment = environment_of(joined(measuring.environments))
    ended = EndedRun(
        settings=settings.recorded,
        cases=rows,
        missing=missing,
        run_cases=divide(cases, None, {}),
        environment=environment,
    )
    return finish(ended).record


def _model_of(settings: RunSettings) -> Callable[[Case], ModelOnDataset]:
    source = cache(partial(source_of, settings))

    def on_dataset(case: Case) -> ModelOnDataset:
        return ModelOnDataset(settings.model(case.model), source(case.dataset))

    return on_dataset


def _row(settings: RunSettings, case: Case, measuring: Measuring, cases: int) -> CaseRecord:
    """Measure and judge a case.

    Raises:
        GrbCheckError: the case has no figures.
    """
    name = settings.model(case.model).label
    result = measuring.result(case, name, settings.repeats)
    verdict, result = judge_result(result, settings.gate, cases=cases)
    return CaseRecord(
        node_id=node_id_of(case),
        id=case.id,
        result="pass" if verdict.passed else "fail",
        outcome=result.outcome,
        verdict=verdict,
        message="" if verdict.passed else verdict.message,
    )
