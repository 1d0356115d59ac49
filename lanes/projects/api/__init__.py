"""Endpoints of this room: notices and channels."""
