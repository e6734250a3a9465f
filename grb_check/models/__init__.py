"""Reference models, defences and contrastive encoders: the factories that `zoo` lists.

May import `errors`, `datasets`, `attacks`, `victims`, `gradients` and `training`. May be imported
by `evaluation`, `ranking`, `settings`, `session` and `cli`. A factory is imported when it is first
asked for, so that the table of models needs no torch.
"""

from __future__ import annotations

import importlib
from typing import Any

from grb_check.models.zoo import EVERY, known


def __getattr__(name: str) -> Any:
    row = known(f"grb_check.models:{name}")
    if row is None:
        raise AttributeError(f"module 'grb_check.models' has no attribute {name!r}")
    return getattr(importlib.import_module(f"grb_check.models.{row.module}"), name)


def __dir__() -> list[str]:
    return sorted(model.name for model in EVERY)
