"""`python -m grb_check`: one file for each command.

May import everything.
"""
