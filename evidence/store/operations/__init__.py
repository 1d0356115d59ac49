"""Writes of this room, one module per use case: intake, sealing, receipts."""
