"""`python -m evalhub.supervisor.health`: ends with 0 if this machine's web server answers.

For a container's health check: it needs no curl and loads no Django, since it runs every few seconds.
"""

import os
import sys
import urllib.error
import urllib.request

from evalhub.supervisor.errors import UpError
from evalhub.supervisor.listener import DEFAULT_BIND, Address, address_of


def is_healthy(address: Address) -> bool:
    """Return whether the web server at this address answers."""
    # No proxy of the machine between this process and its own neighbour.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{address.url}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def main() -> int:
    """Look once."""
    try:
        address = address_of(os.environ.get("EVALHUB_BIND", DEFAULT_BIND))
    except UpError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if is_healthy(address):
        return 0
    sys.stderr.write(f"Nothing answers at {address.url}/healthz.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
