"""Real programs for tests, each started and stopped by the test that needs it."""
