"""The memory on the wire: each RPC of its contract, and what answers it."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import is_dataclass, replace
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from e3rg.memory.v1 import erasure_pb2, exemplars_pb2, identities_pb2, memory_pb2, turns_pb2
from services.common import idempotency
from services.common.errors import InvalidRequest, TooLarge
from services.common.media import chunks
from services.memory import checks, domain
from services.memory.domain import digest_of
from services.memory.memory import Memory
from services.memory.messages import choice, received, sent
from services.memory.uploads import Declared, Transfers, contents_of, files_of, header_of

_FILES = (memory_pb2, identities_pb2, erasure_pb2, exemplars_pb2, turns_pb2)
_DESCRIPTORS: tuple[ServiceDescriptor, ...] = tuple(
    service for file in _FILES for service in file.DESCRIPTOR.services_by_name.values()
)
SERVICES = tuple(service.full_name for service in _DESCRIPTORS)
"""Full names of the services."""

PAGE_DEFAULT, PAGE_MAX = 50, 200
TURNS_DEFAULT = HITS_DEFAULT = 4
"""Turns that are recalled, and hits, when the caller does not say how many."""


def _page(request: Any) -> tuple[int, str]:
    if request.page_size > PAGE_MAX:
        raise TooLarge("page_size", f"{request.page_size}; send 1 to {PAGE_MAX}, or 0 for {PAGE_DEFAULT}")
    return request.page_size or PAGE_DEFAULT, request.page_token


def _marked(request: Any) -> str:
    """Return the mark of page tokens of this list with this filter, and remove it from the request's token."""
    asked, token = type(request)(), request.page_token
    asked.CopyFrom(request)
    for name in ("page_size", "page_token"):
        asked.ClearField(name)
    mark = digest_of(asked.DESCRIPTOR.name.encode() + asked.SerializeToString(deterministic=True))[:12]
    request.page_token = token.removeprefix(f"{mark}-")
    if token and request.page_token in (token, ""):
        problem = f"{token[:80]!a} is none of this list and filter; send what the page before returned"
        raise InvalidRequest("page_token", problem)
    return mark


def _present(message: Any, field: str, path: str = "") -> Any:
    if not message.HasField(field):
        raise InvalidRequest(f"{path}{field}", "missing; it is required")
    return getattr(message, field)


def _generator(request: Any, path: str = "") -> domain.Generator:
    return choice(domain.Generator, request, "generator", path)


def _clip(request: Any, path: str = "") -> domain.ClipKind:
    return choice(domain.ClipKind, request, "kind", path)


def _conversation(request: Any) -> tuple[str, domain.ConversationKey]:
    return request.tenant, domain.ConversationKey(request.identity, request.person, request.conversation)


def _sought(request: Any) -> domain.Sought:
    sought = received(domain.Sought, request)
    return sought if request.HasField("hits_max") else replace(sought, hits_max=HITS_DEFAULT)


def _remembered(request: Any) -> domain.Turn:
    for filled in ("said_at_s", "clips", "conversation"):
        request.turn.ClearField(filled)
    return received(domain.Turn, request.turn)


def _filter(request: Any) -> domain.TurnFilter:
    return received(domain.TurnFilter, request.filter)


def _grants(grants: Any) -> tuple[domain.Grant, ...]:
    return tuple(received(domain.Grant, grant) for grant in grants)


def _outcome(request: Any) -> domain.Outcome:
    return domain.Outcome(
        dict(request.timings_s), dict(request.models), dict(request.variants), tuple(request.degraded)
    )


_UNARY: dict[str, Callable[[Memory, Any], Awaitable[Any]]] = {
    "GetStore": lambda m, r: m.store(),
    "Recall": lambda m, r: m.recaller.recall(
        *_conversation(r), r.turns_max if r.HasField("turns_max") else TURNS_DEFAULT, tuple(r.uses), r.experiment
    ),
    "Search": lambda m, r: m.retrieval.search(*_conversation(r), _sought(r)),
    "Remember": lambda m, r: m.conversations.remember(
        *_conversation(r), _remembered(r), r.identity_generation, r.person_generation
    ),
    "ListTurns": lambda m, r: m.conversations.page(*_conversation(r), *_page(r)),
    "PutTimings": lambda m, r: m.conversations.put_outcome(*_conversation(r), r.turn, _outcome(r)),
    "RaiseRisk": lambda m, r: m.risks.add(
        *_conversation(r), r.id, choice(domain.RiskKind, r, "kind"), choice(domain.RiskSeverity, r, "severity")
    ),
    "GetIdentity": lambda m, r: m.identities.get(r.tenant, r.identity, r.version),
    "ListIdentities": lambda m, r: m.identities.page(r.tenant, *_page(r)),
    "PutEmotionBank": lambda m, r: m.identities.put_bank(r.tenant, received(domain.EmotionBank, _present(r, "bank"))),
    "ListEmotionReferences": lambda m, r: m.references.emotions(r.tenant, r.identity),
    "RemoveEmotionReference": lambda m, r: m.references.remove_emotion(r.tenant, r.identity, _generator(r), r.name),
    "PutExemplars": lambda m, r: m.examples.put(
        r.tenant, r.identity, [received(domain.Example, each) for each in r.exemplars]
    ),
    "ListExemplars": lambda m, r: m.examples.page(r.tenant, r.identity, *_page(r)),
    "SearchExemplars": lambda m, r: m.examples.search(r.tenant, r.identity, _sought(r)),
    "RemoveExemplars": lambda m, r: m.examples.remove(r.tenant, r.identity, tuple(r.ids)),
    "SetRetention": lambda m, r: m.retentions.set(r.tenant, received(domain.Retention, _present(r, "retention"))),
    "GetRetention": lambda m, r: m.retentions.get(r.tenant),
    "EraseIdentity": lambda m, r: m.erasure.identity(r.tenant, r.identity, r.asked_by),
    "ErasePerson": lambda m, r: m.erasure.user(r.tenant, r.person, r.conversation, r.asked_by),
    "EraseTenant": lambda m, r: m.erasure.tenant(r.tenant, r.asked_by),
    "ListAudits": lambda m, r: m.erasure.page(r.tenant, *_page(r)),
    "ListUsers": lambda m, r: m.research.users(r.tenant, r.identity, *_page(r)),
    "ListConversations": lambda m, r: m.research.conversations(r.tenant, r.identity, r.user, *_page(r)),
    "QueryTurns": lambda m, r: m.research.turns(r.tenant, _filter(r), choice(domain.TurnOrder, r, "order"), *_page(r)),
    "CountTurns": lambda m, r: m.research.counts(
        r.tenant, _filter(r), choice(domain.TurnGroup, r, "group"), r.bucket_s
    ),
    "PutScores": lambda m, r: m.research.put_scores(
        r.tenant, received(domain.ConversationKey, r), r.turn, dict(r.scores)
    ),
    "RateTurn": lambda m, r: m.research.rate(
        r.tenant, received(domain.ConversationKey, r), r.turn, received(domain.Rating, _present(r, "rating"))
    ),
}

_READ: dict[str, Callable[[Memory, Any], Awaitable[bytes | tuple[domain.EmotionReference, bytes]]]] = {
    "GetClip": lambda m, r: m.conversations.clip(*_conversation(r), r.turn, _clip(r)),
    "GetReference": lambda m, r: m.recaller.reference(r.tenant, r.identity, r.digest),
    "GetDerived": lambda m, r: m.references.derived(r.tenant, r.identity, tuple(r.reference_digests), r.model_digest),
    "GetEmotionReference": lambda m, r: m.references.emotion(r.tenant, r.identity, _generator(r), r.name),
}

_EXPORT: dict[str, Callable[[Memory, Any], AsyncGenerator[bytes]]] = {
    "ExportIdentity": lambda m, r: m.archive.export(r.tenant, r.identity),
    "ExportTurns": lambda m, r: m.research.export(r.tenant, _filter(r)),
}

_TELL: dict[str, Callable[[Memory, Any], AsyncGenerator[list[Any]]]] = {
    "SummarizeUsers": lambda m, r: m.summaries.users(received(domain.SummaryFilter, r)),
}

Receive = Callable[[list[Declared]], Awaitable[list[bytes]]]
"""Returns the contents that were declared, as they come in."""


async def _add(memory: Memory, header: Any, receive: Receive) -> domain.Identity:
    profile = received(domain.Profile, _present(header, "profile", "header."))
    declared, kinds = _declared("header.references", header.references, whole=True)
    files, bank = tuple(map(domain.File, kinds, await receive(declared))), header.emotion_bank or domain.BANK_DEFAULT
    new = domain.NewIdentity(header.id, profile, _grants(header.grants), files, bank)
    return await memory.identities.add(header.tenant, new)


async def _change(memory: Memory, header: Any, receive: Receive) -> domain.Identity:
    declared, kinds = _declared("header.added", header.added)
    change = domain.Change(
        if_version=header.if_version,
        profile=received(domain.Profile, header.profile) if header.HasField("profile") else None,
        grants=_grants(header.grants.grants) if header.HasField("grants") else None,
        emotion_bank=(header.emotion_bank or domain.BANK_DEFAULT) if header.HasField("emotion_bank") else None,
        removed=tuple(header.removed),
        added=tuple(map(domain.File, kinds, await receive(declared))),
    )
    return await memory.identities.change(header.tenant, header.id, change)


async def _put_clip(memory: Memory, header: Any, receive: Receive) -> domain.Clip:
    kind, declared = _clip(header, "header."), _one(header, checks.CLIP_BYTES_MAX)
    return await memory.conversations.put_clip(*_conversation(header), header.turn, kind, *await receive(declared))


async def _put_derived(memory: Memory, header: Any, receive: Receive) -> None:
    digests, declared = tuple(header.reference_digests), _one(header, checks.DERIVED_BYTES_MAX)
    source = header.tenant, header.identity, digests, header.model_digest
    await memory.references.keep_derived(*source, *await receive(declared))


async def _put_emotion(memory: Memory, header: Any, receive: Receive) -> domain.EmotionReference:
    generator, declared = _generator(header, "header."), _one(header, checks.EMOTION_BYTES_MAX)
    what = header.tenant, header.identity, generator, header.name, header.media_type
    return await memory.references.put_emotion(*what, *await receive(declared))


_PUT: dict[str, Callable[[Memory, Any, Receive], Awaitable[Any]]] = {
    "AddIdentity": _add,
    "ChangeIdentity": _change,
    "PutClip": _put_clip,
    "PutDerived": _put_derived,
    "PutEmotionReference": _put_emotion,
}


def _declared(
    field: str, references: Sequence[Any], whole: bool = False
) -> tuple[list[Declared], list[domain.ReferenceKind]]:
    """Return the reference files that are to come and their kinds, checked."""
    files: list[domain.Reference] = []
    for place, each in enumerate(references):
        kind = choice(domain.ReferenceKind, each, "kind", f"{field}[{place}].")
        if each.digest:
            checks.check_digest(f"{field}[{place}].digest", each.digest)
        files.append(domain.Reference(each.digest, each.size_bytes, kind))
    checks.check_declared(field, files, whole)
    declared = [Declared(f"{field}[{place}]", each.size_bytes, each.digest) for place, each in enumerate(files)]
    return declared, [each.kind for each in files]


def _one(header: Any, bytes_max: int) -> list[Declared]:
    """Return the single content that is to come, of a size that is checked."""
    if header.size_bytes > bytes_max:
        problem = f"{header.size_bytes}; send at most {bytes_max} ({bytes_max >> 20} MiB)"
        raise TooLarge("header.size_bytes", problem)
    if not header.size_bytes:
        raise InvalidRequest("header.size_bytes", f"0; declare the size of what follows, 1 to {bytes_max}")
    return [Declared("content", header.size_bytes)]


class Servicer:
    """Serves the memory's contract.

    Args:
        memory: What answers.
        check_open: Raises `NotReady` until the memory can be used.
    """

    def __init__(self, memory: Memory, check_open: Callable[[], None]) -> None:
        self._memory, self._check_open = memory, check_open
        self._uploads, self._downloads = Transfers(), Transfers()

    def register(self, server: grpc.aio.Server) -> None:
        """Add all services to a server."""
        for service in _DESCRIPTORS:
            handlers = {method.name: self._handler(method) for method in service.methods}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))

    def _handler(self, method: MethodDescriptor) -> Any:
        answer = GetMessageClass(method.output_type)
        codec = GetMessageClass(method.input_type).FromString, answer.SerializeToString
        if method.client_streaming:
            return grpc.stream_unary_rpc_method_handler(self._sending(method.name, answer), *codec)
        if method.name in _TELL:
            return grpc.unary_stream_rpc_method_handler(self._telling(method.name, answer), *codec)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._reading(method.name, answer), *codec)
        call = _UNARY[method.name]

        async def ask(request: Any, context: Any) -> Any:
            self._check_open()
            idempotency.add(request.SerializeToString(deterministic=True))
            if "tenant" in request.DESCRIPTOR.fields_by_name:
                checks.check_id("tenant", request.tenant)
            mark = _marked(request) if "page_token" in request.DESCRIPTOR.fields_by_name else ""
            result = await call(self._memory, request)
            if mark and result[1]:
                result = result[0], f"{mark}-{result[1]}"
            return self._answer(answer, result)

        return grpc.unary_unary_rpc_method_handler(ask, *codec)

    def _answer(self, kind: type[Any], result: Any) -> Any:
        """Return the response of a result: a page, a list, a part of the response, or all of it."""
        fields = kind.DESCRIPTOR.fields
        values: dict[str, Any] = {}
        if "model_digest" in kind.DESCRIPTOR.fields_by_name:
            values["model_digest"] = self._memory.embedding.digest
        if isinstance(result, tuple):
            result, values["next_page_token"] = result
        if isinstance(result, list):
            nested = fields[0].message_type
            values[fields[0].name] = [sent(GetMessageClass(nested), each) for each in result] if nested else result
        elif is_dataclass(result) and len(fields) > 1:
            answered = sent(kind, result)
            answered.MergeFrom(kind(**values))
            return answered
        elif result is not None:
            nested = fields[0].message_type
            values[fields[0].name] = sent(GetMessageClass(nested), result) if nested else result
        return kind(**values)

    def _telling(self, name: str, answer: type[Any]) -> Callable[[Any, Any], AsyncGenerator[Any]]:
        async def tell(request: Any, context: Any) -> AsyncGenerator[Any]:
            self._check_open()
            async with aclosing(_TELL[name](self._memory, request)) as pages:
                async for page in pages:
                    yield self._answer(answer, page)

        return tell

    def _reading(self, name: str, answer: type[Any]) -> Callable[[Any, Any], AsyncGenerator[Any]]:
        async def read(request: Any, context: Any) -> AsyncGenerator[Any]:
            self._check_open()
            checks.check_id("tenant", request.tenant)
            if name in _EXPORT:
                async with aclosing(_EXPORT[name](self._memory, request)) as parts:
                    async for part in parts:
                        for chunk in chunks(part):
                            yield answer(content=chunk)
                return
            content = await _READ[name](self._memory, request)
            if isinstance(content, tuple):
                reference, content = content
                yield answer(reference=sent(identities_pb2.EmotionReference, reference))
            async with aclosing(self._downloads.chunked(content)) as parts:
                del content  # A refusal would hold it, with this frame.
                async for chunk in parts:
                    yield answer(content=chunk)

        return read

    def _sending(self, name: str, answer: type[Any]) -> Callable[[AsyncIterator[Any], Any], Awaitable[Any]]:
        async def send(parts: AsyncIterator[Any], context: Any) -> Any:
            self._check_open()
            header = await header_of(parts)
            checks.check_id("header.tenant", header.tenant)
            if name == "ImportIdentity":
                async with aclosing(contents_of(parts)) as contents:
                    imported = await self._memory.archive.import_(header.tenant, header.identity, contents)
                return self._answer(answer, imported)
            with ExitStack() as room:

                async def receive(declared: list[Declared]) -> list[bytes]:
                    room.enter_context(self._uploads.room(sum(file.size_bytes for file in declared)))
                    return await files_of(parts, declared)

                return self._answer(answer, await _PUT[name](self._memory, header, receive))

        return send
