"""Is it a sound model of graphs? Properties checked on small graphs that hypothesis draws.

May import `errors`, `user_code`, `datasets`, `cases`, `store`, `victims`, `gradients`, `training`
and `evaluation`, and the strategies at the top. May be imported by `session`. Needs hypothesis.
"""

from grb_check import strategies as _first  # noqa: F401 - tells what to install without hypothesis
