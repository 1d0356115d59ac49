"""What a plan means: the rule above the fold, its words, and the row that holds both."""
