"""The user's model before it is trained: wrappers, calling conventions, checks.

May import `errors`, `user_code` and `datasets`. May be imported by every later package. Knows no
attack.
"""
