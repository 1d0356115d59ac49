"""evalhub: an evidence store and gate for agent evaluations that CI fans out over lanes.

The Celery app is not imported here: a lane installs this package without Django or Celery.
"""

__version__ = "0.1.0"
