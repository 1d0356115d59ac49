"""Why `up` does not start, or gives up: one sentence that says how to mend it."""


class UpError(Exception):
    """`up` cannot go on; the message is the whole story."""


class StoppedError(Exception):
    """Somebody asked `up` to stop while it was still starting."""
