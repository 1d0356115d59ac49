"""Numbers in, numbers out: the statistics of the gate. No clock, no random numbers, no I/O."""
