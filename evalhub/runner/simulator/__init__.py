"""A small stateful payments world over real HTTP, one process and one world per lane.

It follows the habits of a well-known payments API (form-encoded requests, bracket nesting, lists
by cursor), so that an agent meets what it would meet outside. Two rules stand above likeness:
whatever it does not know, it refuses by name, because a filter that is silently ignored makes an
agent act on the wrong rows; and equal seeds give equal worlds, ids and times included.
"""
