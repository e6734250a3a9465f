"""Download datasets: sources, transfer, archives.

May import `files` and `errors`. Only formats and `datasets.loading` may import it.
"""
