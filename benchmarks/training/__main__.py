"""Training of the reference models: its cost and its accuracy.

    python -m benchmarks.training adaptive --models gcn --inner none fgsm tdgia
    python -m benchmarks.training adversarial --data synthetic-cora FOLDER/planetoid-cora
    python -m benchmarks.training clean --data FOLDER --seeds 5

Each command writes one JSON object a line as figures come in, then a table in Markdown.
"""

from __future__ import annotations

from benchmarks.command import run
from benchmarks.training import adaptive, adversarial, clean

if __name__ == "__main__":
    run(
        __spec__.parent, __doc__, {"adaptive": adaptive, "adversarial": adversarial, "clean": clean}
    )
