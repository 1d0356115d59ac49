"""GitHub: the check's desired state and its delivery, nothing else."""
