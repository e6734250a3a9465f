"""One run, whoever asks for it: opened inputs, tasks, workers, its record and exit status.

`inputs` opens what settings name. `tasks` are plain data, `steps` are what they do, and `process`
is the state of a process that runs them; `schedule` divides a run into tasks, `measuring` submits
them and waits; `workers` are where they run. `finish` makes the record and the exit status, `base`
is the side of another revision, and `run` is a run without pytest.

May import every earlier package but `gradients` and `training`. May be imported by `session` and
`cli`. Loads torch only where a task runs.
"""
