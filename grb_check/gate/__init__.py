"""The rules that decide pass or fail: limits on drops, baselines, limits on ranks.

May import `errors`, `files`, `cases` and `evaluation`. May be imported by every later package.
Importing it loads no torch.
"""
