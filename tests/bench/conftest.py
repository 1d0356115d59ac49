"""What pytest leaves alone here: settings that are for another process."""

collect_ignore = ["settings.py"]
