"""The conclusion: what a plan means, one row per evaluation."""
