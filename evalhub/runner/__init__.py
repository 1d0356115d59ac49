"""The lane side: planning, spool, upload, importers, simulator, CLI. Knows the server by HTTP only."""
