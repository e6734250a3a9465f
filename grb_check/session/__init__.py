"""One pytest run: collection, progress, expected against reported cases, exit status.

The only package besides `plugin` and `cli.merge` that knows pytest.
"""
