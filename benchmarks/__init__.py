"""Speed, memory and strength, beside peers: `python -m benchmarks.SUBJECT COMMAND --help`.

One package for each subject; `datasets` and `smoke` are single modules.
"""
