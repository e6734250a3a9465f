"""The table of options, and plain `Settings` read from their values, with the origin of each.

May import `errors`, `user_code`, `files`, `datasets`, `attacks`, `cases`, `store`, `models`, `gate`
and `ranking`. May be imported by `reports`, `runs`, `session` and `cli`. Importing it
loads no torch.
"""
