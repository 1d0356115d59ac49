"""The Celery app, the names of all tasks, and how one is asked for. Below all rooms."""
