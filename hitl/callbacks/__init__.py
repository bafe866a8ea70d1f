"""Telling whoever asked: the decision of a standalone request, POSTed to its `on_decide`.

`waiter` is what a standalone request wakes, `deliveries` writes what is owed and what became of it,
`posting` makes one POST, `addresses` says where it may go, `network` goes there and nowhere else.
"""
