"""The injection attacks, beside grb 0.1.0 from PyPI."""
