"""Tasks, and where they run: in this process, or in several.

`tasks` are plain data and the steps that run one in any process; `measuring` divides a run into
tasks and waits for them; `calls` runs them in this process or hands them to workers, and gives a
lost one a second try; `processes` are these workers.

May import every earlier package but `gradients` and `training`. May be imported by `session` and
`cli`. Loads torch only where a task runs.
"""
