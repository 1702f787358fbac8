"""Exits with 0 if the server or worker in this container is ready: its `/readyz` answers 200."""

import os
import sys
from http.client import HTTPConnection, HTTPException

# Less than the timeout of HEALTHCHECK in the Dockerfile.
PATIENCE_S = 4


def is_ready() -> bool:
    """Ask at the port of a worker, if it has one, else at that of a server."""
    port = os.environ.get("ANABRANCH_METRICS_PORT") or os.environ.get("ANABRANCH_PORT") or "8321"
    host = os.environ.get("ANABRANCH_ALLOWED_HOSTS", "").split(",")[0].strip() or "127.0.0.1"
    connection = HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE_S)
    try:
        connection.request("GET", "/readyz", headers={"Host": host})
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_ready() else 1)
