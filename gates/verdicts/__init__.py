"""Gather (coverage, integrity, isolation), baselines, decision records."""
