"""Conversion between messages and dataclasses of the domain, by the names of their fields."""

import re
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from services.common.errors import InvalidRequest

Sent = TypeVar("Sent", bound=Message)
Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=StrEnum)


def sent(kind: type[Sent], value: object) -> Sent:
    """Return the message `kind` of a dataclass; fields that the dataclass lacks stay unset."""
    values: dict[str, Any] = {}
    item: Any
    for name, nested, numbers in _plan(kind):  # type: ignore[arg-type]
        item = getattr(value, name, None)
        if item is None or item == "":
            continue
        if nested and isinstance(item, tuple | list):
            item = [sent(nested, each) for each in item]
        elif nested and isinstance(item, dict):
            valued = nested.DESCRIPTOR.fields_by_name["value"].message_type
            item = {key: sent(GetMessageClass(valued), each) if valued else each for key, each in item.items()}
        elif nested:
            item = sent(nested, item)
        values[name] = numbers[item] if numbers else item
    return kind(**values)


def received(kind: type[Value], message: Message) -> Value:
    """Return the dataclass `kind` of a message; fields that the message lacks keep their defaults."""
    known = message.DESCRIPTOR.fields_by_name
    return kind(**{name: _value(hint, getattr(message, name)) for name, hint in _hints(kind) if name in known})  # type: ignore[arg-type]


def choice(kind: type[Choice], message: Message, field: str, path: str = "") -> Choice:
    """Return the member of `kind` that an enum field of a message stands for; `path` leads to the message.

    Raises:
        InvalidRequest: It stands for none.
    """
    enum, number = message.DESCRIPTOR.fields_by_name[field].enum_type, getattr(message, field)
    names = {number: name for name, number in _numbers(enum).items()}
    if names.get(number) not in set(kind):
        known = ", ".join(enum.values_by_number[_numbers(enum)[member]].name for member in kind)
        raise InvalidRequest(path + field, f"{number} is unknown; use one of: {known}")
    return kind(names[number])


def _value(hint: Any, item: Any) -> Any:
    if get_origin(hint) in (tuple, frozenset):
        return get_origin(hint)(_value(get_args(hint)[0], each) for each in item)
    if get_origin(hint) is dict:
        return dict(item)
    return received(hint, item) if isinstance(hint, type) and is_dataclass(hint) else item


@cache
def _plan(kind: type[Message]) -> list[tuple[str, type[Any] | None, dict[str, int] | None]]:
    """Return the fields of a message: name, class of a nested message, numbers of an enum."""
    return [
        (
            field.name,
            GetMessageClass(field.message_type) if field.message_type else None,
            _numbers(field.enum_type) if field.enum_type else None,
        )
        for field in kind.DESCRIPTOR.fields
    ]


@cache
def _hints(kind: type[Any]) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(each.name, hints[each.name]) for each in fields(kind)]


@cache
def _numbers(enum: EnumDescriptor) -> dict[str, int]:
    """Return the numbers of an enum by names without their prefix, in lower case."""
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum.name).upper() + "_"
    return {value.name.removeprefix(prefix).lower(): value.number for value in enum.values}
