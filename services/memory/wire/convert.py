"""Conversion between messages and the dataclasses of the domain, by the names of their fields."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from services.common.errors import InvalidRequest

Sent = TypeVar("Sent", bound=Message)
Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=StrEnum)


def sent(kind: type[Sent], value: object, **others: Any) -> Sent:
    """Return the message `kind` of a dataclass; `others` are fields that the dataclass names otherwise."""
    result = kind(**others)
    for field in kind.DESCRIPTOR.fields:
        item = getattr(value, field.name, None)
        if item is None:
            continue
        if isinstance(item, Mapping):
            getattr(result, field.name).update(item)
        elif isinstance(item, tuple | list):
            nested = field.message_type
            items = [sent(type_of(nested), each) for each in item] if nested else item
            getattr(result, field.name).extend(items)
        elif field.message_type:
            getattr(result, field.name).CopyFrom(sent(type_of(field.message_type), item))
        else:
            setattr(result, field.name, _number(field, item) if field.enum_type else item)
    return result


def received(kind: type[Value], message: Message) -> Value:
    """Return the dataclass `kind` of a message; fields that the message lacks keep their defaults."""
    values: dict[str, Any] = {}
    for name, hint in _hints(kind).items():  # type: ignore[arg-type]
        if name in message.DESCRIPTOR.fields_by_name:
            values[name] = _value(hint, getattr(message, name))
    return kind(**values)


def choice(field: str, kind: type[Choice], enum: EnumDescriptor, number: int) -> Choice:
    """Return the member of `kind` that an enum's number stands for.

    Raises:
        InvalidRequest: It stands for none.
    """
    found = enum.values_by_number.get(number)
    name = found.name.removeprefix(_prefix(enum)).lower() if found else ""
    if name not in set(kind):
        known = ", ".join(f"{_prefix(enum)}{member.upper()}" for member in kind)
        raise InvalidRequest(field, f"{number} is unknown; use one of: {known}")
    return kind(name)


def type_of(descriptor: Any) -> type[Any]:
    """Return the class of a message type."""
    kind: type[Any] = descriptor._concrete_class
    return kind


def _value(hint: Any, item: Any) -> Any:
    if get_origin(hint) in (tuple, frozenset):
        return get_origin(hint)(_value(get_args(hint)[0], each) for each in item)
    if get_origin(hint) is dict:
        return dict(item)
    return received(hint, item) if is_dataclass(hint) and isinstance(hint, type) else item


def _number(field: FieldDescriptor, item: str) -> int:
    enum: Any = field.enum_type
    number: int = enum.values_by_name[f"{_prefix(enum)}{item.upper()}"].number
    return number


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


@cache
def _prefix(enum: EnumDescriptor) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum.name).upper() + "_"
