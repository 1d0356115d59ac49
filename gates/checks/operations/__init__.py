"""Writes of this room, by use case: what a commit's check should say, and its delivery."""
