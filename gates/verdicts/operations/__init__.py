"""What this room writes: adopted baselines, the baselines that plans chose, decision records."""
