"""The command lines of agents: `manage.py workflows` and `manage.py agents`.

`workflows` and `threads` do what a command line asks for, `documents` is the JSON form and `tables`
the readable one. The commands themselves only parse. What is shared with `manage.py hitl` is in
`hitl/console`.
"""
