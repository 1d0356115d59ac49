"""How a message leaves this server: by SMTP, or by a POST that reaches public addresses only.

A transport knows no room and writes no row. It never waits between tries and raises nothing for what
the other side or the network does: each call answers with an outcome, and the caller's row says what
happens next.
"""
