"""What a plan's evidence says: gather, isolation, comparators, comparisons, records. Reads only."""
