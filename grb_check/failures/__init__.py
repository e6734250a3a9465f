"""A failed case: its evidence, replay, shrinking, the smallest counter-example.

May import `errors`, `user_code`, `files`, `datasets`, `attacks`, `cases`, `victims`, `evaluation`
and `gate`. May be imported by `reports`, `session` and `cli`.
"""
