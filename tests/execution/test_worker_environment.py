"""Workers that differ from the process that submits to them."""

from __future__ import annotations

import pytest

from grb_check.errors import UsageError
from grb_check.execution.worker_environment import (
    PROCESS,
    Needs,
    compare,
    environment_of_worker,
)

HERE = {PROCESS: "laptop 1", "torch": "2.9.0", "source of my:gcn": "ab12"}


def test_a_difference_names_both_sides_and_what_to_do() -> None:
    """Workers with the same difference are one entry, and four of them are not all named."""
    others = {f"tcp://10.0.0.{each}:1": {**HERE, PROCESS: f"node {each}"} for each in range(6)}
    for name in list(others)[:4]:
        others[name]["torch"] = "2.4.0"
    others["tcp://10.0.0.5:1"]["source of my:gcn"] = "not to be imported (no module my)"
    with pytest.raises(UsageError) as raised:
        compare("--grb-executor=dask:x", HERE, others)
    text = str(raised.value)
    assert text.startswith("--grb-executor=dask:x: workers differ")
    assert (
        "source of my:gcn is not to be imported (no module my) at 1 worker (tcp://10.0.0.5:1) and "
        "ab12 here; torch is 2.4.0 at 4 workers (tcp://10.0.0.0:1, tcp://10.0.0.1:1, "
        "tcp://10.0.0.2:1 and 1 more) and 2.9.0 here; install the same versions"
    ) in text


def test_a_model_that_cannot_be_imported_is_named_with_its_error() -> None:
    """The worker goes on: this side says what differs."""
    found = environment_of_worker(Needs(models=("no_such_module:build",)))
    assert "there is no module no_such_module" in found["source of no_such_module:build"]
