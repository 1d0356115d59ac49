"""Pages of this room: signing in, notices, channels."""
