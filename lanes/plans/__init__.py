"""Suites, policies, plans, lanes, attempts, heartbeats, deadlines: what should run."""
