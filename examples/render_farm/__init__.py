"""A render farm: a small HTTP job server in a process of its own, and an agent that uses it.

`farm`, `server` and `__main__` are the server, which knows nothing of Sayso: it takes a job with an
address to notify, works for a moment, and posts the result there. `client` submits jobs, `child`
runs a farm beside another program, `agents` has the tool that waits without holding a worker.
"""
