"""The command line of hitl, `manage.py hitl`: the verbs for a terminal, one noun per module.

`errands` does what a command line asks for, `addresses` finds the request that it names, `login`
tells who asks, `documents` is the JSON form and `tables` the readable one. The command itself only
parses. Statuses are written by the verbs of `hitl/parks.py`, as from every other channel.
"""
