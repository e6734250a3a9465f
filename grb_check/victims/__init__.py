"""The user's model before it is trained: wrappers, calling conventions, checks.

May import `datasets` and `user_code`. Knows no attack.
"""
