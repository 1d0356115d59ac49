"""From flags and environment to a store."""

import argparse

from evalhub.runner.client import Store
from evalhub.runner.errors import InputError
from evalhub.runner.options import store_token, store_url


def connected(options: argparse.Namespace) -> Store:
    """Return the store that the command was given.

    Raises:
        InputError: if address or token is absent.
    """
    url = store_url(options)
    if url is None:
        raise InputError("EVALHUB_URL was absent; expected the address of the store (or --url).")
    token = store_token(options)
    if token is None:
        raise InputError(
            "EVALHUB_TOKEN was absent; expected a token of the project "
            "(or EVALHUB_TOKEN_FILE, a file that holds it)."
        )
    return Store(url, token)
