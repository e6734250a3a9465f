"""Download datasets: sources, transfer, archives.

May import `files` and `errors`.
"""
