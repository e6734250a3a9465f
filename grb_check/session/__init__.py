"""One session of pytest, a driver of `runs`: collection, progress, header, reports of tests.

May import every earlier package but `gradients` and `training`. May be imported by `cli`. Besides
`plugin.py`, only this package knows pytest.
"""
