"""The demo: a suite over the payments world, a scripted agent, a stand-in for GitHub, and `make demo`.

Nothing here travels in the wheel. The agent's modules import little and no Django: one process is
started for each run.
"""
