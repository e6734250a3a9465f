"""Code that users hand over: import and call it, isolate its randomness, shorten tracebacks.

May import `errors` only. Every package that runs code of a user may import it.
"""
