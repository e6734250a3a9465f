"""One file for each layout in which a graph may lie on disk, and the readers that they share.

May import `datasets` modules that know no format, `files` and `user_code`.
"""
