"""Reads of evidence for people: transcripts by page, records as documents, lists of runs."""
