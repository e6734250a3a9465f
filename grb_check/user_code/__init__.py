"""Code that users hand over: import and call it, isolate its randomness, shorten tracebacks.

May import `errors`. May be imported by every later package.
"""
