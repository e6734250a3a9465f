"""`python -m grb_check`: one file for each command.

May import every earlier package. May be imported by no package; `__main__.py` imports it.
"""
