"""Client of the cluster's API, for the objects of variants."""

import os

from kubernetes import client, config
from urllib3.exceptions import HTTPError

CALL_TIMEOUT_S = (3, 10)
"""For the connection, and for the answer."""
MANAGER = "e3rg-gateway"
"""Name that the API notes beside changes."""
NOT_FOUND, CONFLICT = 404, 409
AWAY = (client.ApiException, config.ConfigException, HTTPError, OSError)
"""Errors of an API that is away or refuses."""


def api_client() -> client.ApiClient:
    """Return a client of the cluster: of KUBECONFIG where it is set, else by the pod's account.

    Raises:
        ConfigException: There is neither.
    """
    settings = client.Configuration()
    if path := os.environ.get("KUBECONFIG"):
        config.load_kube_config(config_file=path, client_configuration=settings)
    else:
        config.load_incluster_config(client_configuration=settings)
    # Callers try again by themselves.
    settings.retries = False
    return client.ApiClient(settings)


def reason(error: Exception) -> str:
    """Return an error in one line, without the answer's headers."""
    status, text = getattr(error, "status", None), getattr(error, "reason", None)
    return f"{status} {text}" if status else f"{type(error).__name__}: {error}"
