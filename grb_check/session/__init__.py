"""One pytest run: collection, progress, expected against reported cases, exit status.

May import every earlier package but `gradients` and `training`. May be imported by `cli`. Besides
`plugin.py`, only this package knows pytest.
"""
