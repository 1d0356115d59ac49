"""WHAT CAME BACK: the evidence store and its reader."""
