"""The documents that cross the wire, and why one is refused. Pure: no I/O, no clock, no Django."""
