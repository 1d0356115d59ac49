"""What is misconfigured, in sentences. Above all rooms: it asks each of them, none knows it."""
