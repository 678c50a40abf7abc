"""Table of variants in a ConfigMap: watched through the cluster's API, and read from its mounted file at first."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any

from kubernetes import client, watch
from prometheus_client import Gauge

from services.common.errors import Conflict, NotReady
from services.common.variants.cluster import AWAY, CALL_TIMEOUT_S, CONFLICT, MANAGER, api_client, reason
from services.common.variants.live import Source

log = logging.getLogger(__name__)

WATCHED = Gauge("e3rg_variants_watched", "Whether the ConfigMap of variants is watched: 0 without the cluster's API.")

WATCH_S = 60
"""The API ends a watch after so long; the next one begins where it ended."""
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 5.0
_WATCH_TIMEOUT_S = (3, WATCH_S + 15)
_GONE = 410


class ConfigMapTable:
    """A table in one key of a ConfigMap.

    Args:
        name: `namespace/name` of the ConfigMap.
        key: The key; without it the text is empty.
        fallback: The key's mounted file, which counts until the API has answered once.
    """

    def __init__(self, name: str, key: str, fallback: Source | None = None) -> None:
        self._namespace, _, self._name = name.partition("/")
        self._key = key
        self._fallback = fallback

    async def texts(self) -> AsyncGenerator[str]:
        """Yield the text now and after each change. While the API is away, the last text stays."""
        loop = asyncio.get_running_loop()
        news: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()

        def tell(text: str) -> None:
            # The loop may be closed by now: nobody waits for the thread to end.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(news.put_nowait, (text, True))

        watching = _Watching(self._namespace, self._name, self._key, tell)
        watching.start()
        reading = asyncio.create_task(self._read_fallback(news))
        known: str | None = None
        is_watched = False
        try:
            while True:
                text, by_watch = await news.get()
                if by_watch and not is_watched:
                    is_watched = True
                    reading.cancel()
                if text != known and by_watch == is_watched:
                    known = text
                    yield text
        finally:
            watching.stop()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def read(self) -> str:
        """Return the text as it is there now.

        Raises:
            NotReady: The API is away or refuses.
        """
        try:
            return await asyncio.to_thread(self._read)
        except AWAY as error:
            where = f"ConfigMap {self._namespace}/{self._name}"
            raise NotReady(f"the table of variants cannot be read from {where}: {reason(error)}") from error

    async def replace(self, before: str, text: str) -> None:
        """Replace the text, and no other key.

        Args:
            before: The text that the change was made from.
            text: The new text.

        Raises:
            Conflict: The key has another text by now, or somebody changed the ConfigMap meanwhile.
            NotReady: The API is away or refuses.
        """
        try:
            await asyncio.to_thread(self._replace, before, text)
        except AWAY as error:
            if getattr(error, "status", None) == CONFLICT:
                raise Conflict("the table of variants was changed meanwhile; look at it and try again") from None
            where = f"ConfigMap {self._namespace}/{self._name}"
            raise NotReady(f"the table of variants cannot be written to {where}: {reason(error)}") from error

    async def _read_fallback(self, news: asyncio.Queue[tuple[str, bool]]) -> None:
        if self._fallback:
            async for text in self._fallback.texts():
                news.put_nowait((text, False))

    def _read(self) -> str:
        held = client.CoreV1Api(api_client()).read_namespaced_config_map(
            self._name, self._namespace, _request_timeout=CALL_TIMEOUT_S
        )
        return str((held.data or {}).get(self._key, ""))

    def _replace(self, before: str, text: str) -> None:
        api = client.CoreV1Api(api_client())
        held = api.read_namespaced_config_map(self._name, self._namespace, _request_timeout=CALL_TIMEOUT_S)
        if (held.data or {}).get(self._key, "") != before:
            raise Conflict("the table of variants was changed meanwhile; look at it and try again")
        # With its version, the API refuses the patch where somebody was faster.
        change = {"metadata": {"resourceVersion": held.metadata.resource_version}, "data": {self._key: text}}
        api.patch_namespaced_config_map(
            self._name, self._namespace, change, field_manager=MANAGER, _request_timeout=CALL_TIMEOUT_S
        )


class _Watching:
    """Thread that lists and watches one ConfigMap. A daemon: its blocking read never holds up the process' end."""

    def __init__(self, namespace: str, name: str, key: str, tell: Callable[[str], None]) -> None:
        self._where = f"{namespace}/{name}"
        # The right on one object alone allows no other list.
        self._asked = {"namespace": namespace, "field_selector": f"metadata.name={name}"}
        self._key = key
        self._tell = tell
        self._stopped = threading.Event()
        self._watch = watch.Watch()
        self._is_watched: bool | None = None
        self._has_told = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="variants-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._watch.stop()

    def _run(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while not self._stopped.is_set():
            try:
                api = client.CoreV1Api(api_client())
                version = self._list(api)
                while not self._stopped.wait(BACKOFF_FIRST_S):
                    version = self._follow(api, version)
                    backoff_s = BACKOFF_FIRST_S
            except Exception as error:  # A thread that ends would leave the table as it is for ever.
                # Gone is no failure: the version is too old to go on from, and the list has a fresh one.
                if getattr(error, "status", None) != _GONE:
                    self._say(False, reason(error))
            self._stopped.wait(backoff_s)
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    def _list(self, api: client.CoreV1Api) -> str:
        """Tell the text as it is; return the version of the list."""
        listed = api.list_namespaced_config_map(**self._asked, _request_timeout=CALL_TIMEOUT_S)
        if listed.items or not self._has_told:
            self._hand_on(next(((held.data or {}).get(self._key, "") for held in listed.items), ""))
        self._say(True)
        return str(listed.metadata.resource_version)

    def _follow(self, api: client.CoreV1Api, version: str) -> str:
        """Tell what changes after a version until the watch ends; return the version to go on from."""
        asked: dict[str, Any] = {**self._asked, "allow_watch_bookmarks": True, "timeout_seconds": WATCH_S}
        changes = self._watch.stream(
            api.list_namespaced_config_map, **asked, resource_version=version, _request_timeout=_WATCH_TIMEOUT_S
        )
        for change in changes:
            if change is None:  # A line that was cut off.
                continue
            found = change["raw_object"]
            version = found["metadata"]["resourceVersion"]
            # One that is deleted comes again, as when it is replaced by force: until then conversations stay.
            if change["type"] not in ("BOOKMARK", "DELETED"):
                self._hand_on((found.get("data") or {}).get(self._key, ""))
        return version

    def _hand_on(self, text: str) -> None:
        self._has_told = True
        self._tell(text)

    def _say(self, is_watched: bool, why: str = "") -> None:
        if is_watched == self._is_watched or self._stopped.is_set():
            return
        self._is_watched = is_watched
        WATCHED.set(is_watched)
        if is_watched:
            log.info("the ConfigMap of variants is watched", extra={"config_map": self._where})
        else:
            log.warning(
                "the ConfigMap of variants cannot be watched; the table known last stays",
                extra={"config_map": self._where, "why": why},
            )
