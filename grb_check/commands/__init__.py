"""Commands of `python -m grb_check` that have options of their own, one module each."""
