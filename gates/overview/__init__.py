"""The pages that show several wings at once. Views only: no models, no queries of its own."""
