"""Numbers in, numbers out; no clock, no random numbers, no I/O.

scipy's parts are named in full (`scipy.stats.binom`) and so are loaded where one is first called for:
most processes that import these modules decide nothing, and `scipy.stats` takes longer to load than
all of the server.
"""
