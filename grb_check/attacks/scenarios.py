"""Scenarios: what an attacker may change, and when. Imports nothing.

| scenario       | a perturbation contains      | it is applied            | the attacker sees     |
| -------------- | ---------------------------- | ------------------------ | --------------------- |
| `injection`    | new nodes with their edges   | before the model answers | surrogates, the model |
| `modification` | flipped edges, new features  | before the model answers | surrogates, the model |
| `poisoning`    | either, as its attack makes  | before it is trained     | surrogates            |
"""

from __future__ import annotations

from typing import Final, Literal

Evasion = Literal["modification", "injection"]
Scenario = Literal[Evasion, "poisoning"]

INJECTION: Final = "injection"
MODIFICATION: Final = "modification"
POISONING: Final = "poisoning"
SCENARIOS: Final[tuple[Scenario, ...]] = (INJECTION, MODIFICATION, POISONING)  # in reports' order
EVASION: Final = SCENARIOS[:2]
