"""Dataset x difficulty x attack cases, suites of them, and the outcomes that came back.

May import `errors`, and `datasets` and `attacks` for names. May be imported by every later package.
Importing it loads no torch.
"""
