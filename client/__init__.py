"""The Python client: what a user's own code imports, and the `e3rg` command."""

from client.client import Client, Timed
from client.connection import ClientError

__all__ = ["Client", "ClientError", "Timed"]
