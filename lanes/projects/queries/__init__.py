"""Reads of this room, by use case."""
