"""Writes of this room, by use case."""
