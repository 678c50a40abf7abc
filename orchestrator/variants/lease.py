"""Lease of the cluster that one gateway at a time holds, and Events about what it does.

The rules are those of client-go's leader election. The client's own `kubernetes.leaderelection` keeps its record in a
ConfigMap, compares wall clocks, and cannot be stopped.
"""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kubernetes import client

from services.common.variants.cluster import AWAY, CALL_TIMEOUT_S, CONFLICT, MANAGER, NOT_FOUND, api_client, reason

LEASE_S = 15
"""Time without a renewal after which another gateway takes the Lease."""
EVENT_CHARS_MAX = 1000
"""Of an Event's text; the API takes 1,024 bytes."""


class LeaseLock:
    """Lock in a Lease object.

    A holder's time counts from when this process saw its last renewal, so that the clocks of nodes need not agree.

    Args:
        name: `namespace/name` of the Lease.
        identity: Name of this candidate; no other one has it.
        clock: Tells monotonic seconds.
    """

    def __init__(self, name: str, identity: str, clock: Callable[[], float]) -> None:
        self._namespace, _, self._name = name.partition("/")
        self._identity, self._clock = identity, clock
        self._seen: tuple[object, ...] = ()
        self._seen_s = 0.0

    def hold(self) -> bool:
        """Take or renew it; return whether it is held.

        Raises:
            OSError: The API is away or refuses.
        """
        try:
            return self._hold(client.CoordinationV1Api(api_client()))
        except AWAY as error:
            if getattr(error, "status", None) == CONFLICT:  # Somebody else was faster.
                return False
            raise OSError(f"Lease {self._namespace}/{self._name}: {reason(error)}") from error

    def release(self) -> None:
        """Give it back if it is held.

        Raises:
            OSError: The API is away or refuses.
        """
        try:
            api = client.CoordinationV1Api(api_client())
            held = self._read(api)
            if held and held.spec.holder_identity == self._identity:
                self._replace(api, held, holder="", lease_s=1)
        except AWAY as error:
            raise OSError(reason(error)) from error

    def _hold(self, api: client.CoordinationV1Api) -> bool:
        held = self._read(api)
        if held is None:
            body = {"metadata": {"name": self._name}, "spec": self._spec(self._identity, LEASE_S, _now(), 0)}
            api.create_namespaced_lease(self._namespace, body, field_manager=MANAGER, _request_timeout=CALL_TIMEOUT_S)
            return True
        spec = held.spec
        seen = (spec.holder_identity, spec.renew_time, held.metadata.resource_version)
        if seen != self._seen:
            self._seen, self._seen_s = seen, self._clock()
        is_fresh = self._clock() - self._seen_s < (spec.lease_duration_seconds or LEASE_S)
        if spec.holder_identity not in (None, "", self._identity) and is_fresh:
            return False
        self._replace(api, held, self._identity, LEASE_S)
        return True

    def _read(self, api: client.CoordinationV1Api) -> Any:
        try:
            return api.read_namespaced_lease(self._name, self._namespace, _request_timeout=CALL_TIMEOUT_S)
        except client.ApiException as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def _replace(self, api: client.CoordinationV1Api, held: Any, holder: str, lease_s: int) -> None:
        spec = held.spec
        is_renewed = spec.holder_identity == self._identity
        since = _text(spec.acquire_time) if is_renewed and spec.acquire_time else _now()
        transitions = (spec.lease_transitions or 0) + (not is_renewed)
        # With its version, the API refuses where somebody was faster.
        metadata = {"name": self._name, "resourceVersion": held.metadata.resource_version}
        body = {"metadata": metadata, "spec": self._spec(holder, lease_s, since, transitions)}
        api.replace_namespaced_lease(
            self._name, self._namespace, body, field_manager=MANAGER, _request_timeout=CALL_TIMEOUT_S
        )

    def _spec(self, holder: str, lease_s: int, since: str, transitions: int) -> dict[str, object]:
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": lease_s,
            "acquireTime": since,
            "renewTime": _now(),
            "leaseTransitions": transitions,
        }


def warn(config_map: str, event: str, text: str) -> None:
    """Write a warning about a ConfigMap for the cluster's operators. Blocks.

    Args:
        config_map: `namespace/name`.
        event: Reason in one word.
        text: The warning.

    Raises:
        OSError: The API is away or refuses.
    """
    namespace, _, name = config_map.partition("/")
    now = _now()[:19] + "Z"
    body = {
        "metadata": {"name": f"{name}.{secrets.token_hex(8)}", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": namespace},
        "type": "Warning",
        "reason": event,
        "message": text[:EVENT_CHARS_MAX],
        "source": {"component": MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        api = client.CoreV1Api(api_client())
        api.create_namespaced_event(namespace, body, field_manager=MANAGER, _request_timeout=CALL_TIMEOUT_S)
    except AWAY as error:
        raise OSError(reason(error)) from error


def _now() -> str:
    return _text(datetime.now(UTC))


def _text(at: datetime) -> str:
    # The API wants all six digits, which `isoformat` leaves out where they are 0.
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
