"""Projects, members, roles, tokens, sign-in links, audit: who may speak."""
