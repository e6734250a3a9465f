"""The places where tasks run: this process, or a pool of workers.

A pool of workers is any `concurrent.futures.Executor` behind `calls.Workers`: processes of loky are
one.
"""
