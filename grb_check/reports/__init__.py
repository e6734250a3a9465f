"""Reports: terminal, JUnit, JSON. They read rows of the ledger and nothing else."""
