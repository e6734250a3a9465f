"""The run record, and its reports: terminal, JUnit, JSON, Markdown, HTML.

May import `errors`, `files`, `attacks`, `cases`, `evaluation`, `gate`, `ranking`, `failures` and
`settings`. May be imported by `runs`, `session` and `cli`. Importing it loads no torch.
"""
