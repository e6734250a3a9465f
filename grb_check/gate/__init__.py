"""The rules that turn outcomes into pass or fail: limits, baselines, limits on ranks.

May import `errors`, `files`, `cases` and `evaluation`. May be imported by every later package.
Importing it loads no torch.
"""
