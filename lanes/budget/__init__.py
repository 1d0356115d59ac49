"""Judge pools, sub-allocations and the append-only spend ledger. Knows plans only as text keys."""
