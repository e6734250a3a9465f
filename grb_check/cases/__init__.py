"""Dataset x difficulty x attack cases, suites of them, and the outcomes that came back.

May import `datasets` and `attacks` by name only: collecting cases never imports torch.
"""
