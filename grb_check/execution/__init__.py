"""Tasks, and where they run: in this process, in several, or on a cluster.

`tasks` are plain data; `run_task` runs one in any process; `planning` divides a run into tasks;
`processes` and `executors` are places where tasks run; `retrying` gives a lost task a second try;
`elsewhere` is all of it for a run, and `here` the same for a run in this process.

May import every earlier package but `gradients` and `training`. May be imported by `session` and
`cli`. Loads torch only where a task runs.
"""
