"""Code that users hand over: import and call it, undo what it changes, shorten tracebacks.

May import `errors`. May be imported by every later package.
"""
