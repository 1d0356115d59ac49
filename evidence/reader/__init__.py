"""Transcripts, logs and files, shown and served."""
