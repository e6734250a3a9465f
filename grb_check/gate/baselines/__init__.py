"""Compare a run with a saved one: files, tests, verdicts."""
