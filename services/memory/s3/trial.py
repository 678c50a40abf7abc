"""Finds out whether a store keeps what the memory is built on, by trying it."""

import secrets

from services.common.errors import NotReady
from services.memory.s3.bucket import Bucket, NoBucket
from services.memory.store import SAME, Entry, Store

PROBE_AGE_S = 3600
"""A probe this much older than the newest was left by a process that died."""


def try_bucket(bucket: Bucket, store: Store, make: bool) -> None:
    """Finds the bucket, or makes it, and tries conditional writes in it.

    Args:
        bucket: Which.
        store: The store in it.
        make: Whether to make the bucket when there is none.

    Raises:
        NotReady: Something is not as it has to be; the message says what, and what to do about it.
    """
    try:
        probes = store.list("probe/")
    except NoBucket:
        if not make:
            raise
        bucket.make()
        probes = ()
    _refuse_versions(bucket)
    key = f"probe/{secrets.token_hex(16)}"
    try:
        _try_conditions(bucket, store, key)
    finally:
        store.delete([key, *_left(probes)])


def _refuse_versions(bucket: Bucket) -> None:
    status = bucket.parsed("GET", {"versioning": ""}).findtext("{*}Status")
    if status:
        raise NotReady(
            f"versioning of the bucket {bucket.address.bucket!r} is {status}: what is erased would stay in it; use a"
            " bucket on which versioning was never enabled"
        )


def _try_conditions(bucket: Bucket, store: Store, key: str) -> None:
    first = store.create(key, b"1")
    again = store.create(key, b"2")
    wrong = store.replace(key, b"3", "0" * 32)
    second = store.replace(key, b"4", first or "")
    same = store.get(key, unless=second or "")
    for condition, is_kept in (
        ("If-None-Match: *", first is not None and again is None),
        ("If-Match", second is not None and wrong is None),
        ("If-None-Match", same is SAME),
    ):
        if not is_kept:
            raise NotReady(
                f"the object store at {bucket.address} does not keep the condition {condition}, so writers would"
                " overwrite each other; use a store that has conditional writes"
            )


def _left(probes: tuple[Entry, ...]) -> list[str]:
    newest_s = max((probe.modified_s for probe in probes), default=0.0)
    return [probe.key for probe in probes if newest_s - probe.modified_s > PROBE_AGE_S]
