"""Writes of this room: one module for each use case."""
