"""Run all of evalhub on one machine: `manage.py up` starts its programs and answers for them.

No process may outlive it, however it ends: each child is in a session of its own, is ended by the
kernel when the supervisor dies, and takes its own children with it.
"""
