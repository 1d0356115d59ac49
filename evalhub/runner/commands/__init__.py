"""One module per command group: `configure(parser)` adds its flags and sets `handler`."""
