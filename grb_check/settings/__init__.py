"""Options and ini values, read into one frozen `Settings` with the origin of each value.

May import `errors`, `user_code`, `files`, `datasets`, `attacks`, `cases`, `store`, `models`, `gate`
and `ranking`. May be imported by `reports`, `execution`, `session` and `cli`. Importing it
loads no torch.
"""
