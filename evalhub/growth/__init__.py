"""Stores of any size within minutes, to see what growth costs. Never for a store that counts.

`manage.py generate` writes what years of plans would leave, past the operations that check each
upload; a test holds that it is valid all the same.
"""
