"""Endpoints of this room: documents of the base branch, plans, attempts."""
