"""Results of other tools as a suite, a plan and evidence. One module per format."""
