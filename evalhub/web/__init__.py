"""What every page and endpoint shares: errors, security headers, formatting, static files."""
