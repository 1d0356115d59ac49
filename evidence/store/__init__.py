"""Segments, items, objects, quarantine, runs, judge calls, scores: what came back and is kept."""
