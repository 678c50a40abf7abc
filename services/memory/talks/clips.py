"""Generated speech and video of turns: one of each kind, each under the SHA-256 of its bytes."""

from collections.abc import Sequence

from services.common.errors import InvalidRequest, NotFound, NotReady, TooLarge
from services.memory.domain import Clip, ClipKind
from services.memory.keys import Talk, clip_of
from services.memory.records import damaged, digest_of
from services.memory.store import Entry, Store, content_of

CLIP_BYTES_MAX = 64 * 2**20
"""Largest clip."""

ROUNDS_MAX = 20
"""Whoever is overtaken by others so often gives up."""

_FORMATS = {ClipKind.SPEECH: "a WAV file", ClipKind.VIDEO: "an MP4 file"}


class Clips:
    """The clips in `store`. Calls block; any thread may call.

    A clip that takes the place of another is written first and the other one deleted then, so that one is always
    there; while both are, the one that was written last is it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, talk: Talk, conversation: str, placed: str, kind: ClipKind, content: bytes) -> Clip:
        """Keeps a clip of the turn that is `placed` there.

        Raises:
            NotReady: Others replace it all the time.
        """
        clip = Clip(kind, digest_of(content), len(content))
        key = talk.clip(conversation, placed, kind, clip.digest)
        self._store.put(key, content)
        for _ in range(ROUNDS_MAX):
            there = self._listed_of(talk, conversation, placed, kind)
            others = [other for other in there if other != key]
            if not there:  # Two that replaced each other deleted both.
                self._store.put(key, content)
            elif key in there and others:
                self._store.delete(others)
            else:
                return clip  # It is the only one, or another came later and took its place.
        raise NotReady(f"the {kind} of this turn is replaced all the time; retry")

    def get(self, talk: Talk, conversation: str, placed: str, kind: ClipKind) -> bytes:
        """Returns the bytes of a clip: those that were kept, their SHA-256 is checked.

        Raises:
            NotFound: There is none.
            Damaged: It is not what was kept; the message names it.
        """
        for _ in range(ROUNDS_MAX):
            listed = self._listed_of(talk, conversation, placed, kind)
            if not listed:
                break
            key = listed[-1]
            content = content_of(self._store.get(key))
            if content is None:
                continue  # Replaced or erased since the listing.
            if digest_of(content) != clip_of(key)[2]:
                raise damaged(key, f"its SHA-256 does not match ({len(content)} bytes)")
            return content
        raise NotFound(f"there is no {kind} of that turn; ListTurns says which clips were kept")

    def of(self, talk: Talk, conversation: str, turns: Sequence[str]) -> dict[str, tuple[Clip, ...]]:
        """Returns the clips of each of these turns, at most one of each kind.

        Args:
            talk: Whose.
            conversation: Which.
            turns: "<place>-<turn>" of turns that follow one another: what stands between them is listed as well.
        """
        last: dict[str, dict[ClipKind, Clip]] = {placed: {} for placed in turns}
        for entry in self._listed(talk, conversation, turns) if turns else ():
            placed, kind, digest = clip_of(entry.key)
            if placed in last:
                last[placed][kind] = Clip(kind, digest, entry.size_bytes)
        return {placed: tuple(clips[kind] for kind in ClipKind if kind in clips) for placed, clips in last.items()}

    def _listed_of(self, talk: Talk, conversation: str, placed: str, kind: ClipKind) -> list[str]:
        """Returns the keys of a kind, the one that was written last at the end."""
        listed = self._listed(talk, conversation, [placed])
        return [entry.key for entry in listed if clip_of(entry.key)[:2] == (placed, kind)]

    def _listed(self, talk: Talk, conversation: str, turns: Sequence[str]) -> list[Entry]:
        """Returns the clips from the place of the first turn to that of the last, those written last at the end.

        Turns at the same place stand in another order than their clips, so all clips of a place are looked at.
        """
        folder = talk.clips(conversation)
        first, last = (f"{folder}{placed.partition('-')[0]}" for placed in (min(turns), max(turns)))
        limit = len(ClipKind) * (len(turns) + 1)
        found: list[Entry] = []
        after, is_more = first, True
        while is_more:
            entries = self._store.list(folder, limit, after)
            within = [entry for entry in entries if entry.key[: len(last)] <= last]
            found += within
            is_more = len(within) == limit
            after = entries[-1].key if entries else after
        return sorted(found, key=lambda entry: (entry.modified_s, entry.key))


def check_clip(kind: ClipKind, content: bytes) -> None:
    """Checks that a clip is there, is not too large and begins as its format does.

    Raises:
        InvalidRequest: It is not so.
    """
    if not content:
        raise InvalidRequest("content", f"it is missing (0 bytes); send {_FORMATS[kind]}")
    if len(content) > CLIP_BYTES_MAX:
        raise TooLarge("content", f"it has {len(content)} bytes; send at most {CLIP_BYTES_MAX} (64 MiB)")
    wav = content[:4] == b"RIFF" and content[8:12] == b"WAVE"
    if not (wav if kind is ClipKind.SPEECH else content[4:8] == b"ftyp"):
        raise InvalidRequest("content", f"its {len(content)} bytes begin with {content[:12]!r}; send {_FORMATS[kind]}")
