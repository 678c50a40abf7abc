"""Reads and writes messages of protocol buffers, the format of ONNX files, field by field."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """One field of a message; nothing is copied.

    Attributes:
        number: Which field, by the format's definition.
        raw: All of it, key and length included.
        content: What is in it; empty for numbers.
    """

    number: int
    raw: memoryview
    content: memoryview


def fields(message: bytes | memoryview) -> Iterator[Field]:
    """Reads the fields of a message in order.

    Raises:
        ValueError: It is no message.
    """
    message = memoryview(message)
    place = 0
    while place < len(message):
        start = place
        key, place = _read_varint(message, place)
        content_start = place
        match key & 7:
            case 0:
                _, place = _read_varint(message, place)
                content_start = place
            case 1:
                content_start = place = place + 8
            case 2:
                length, content_start = _read_varint(message, place)
                place = content_start + length
            case 5:
                content_start = place = place + 4
            case kind:
                raise ValueError(f"this is no message: field {key >> 3} is of kind {kind}")
        if place > len(message):
            raise ValueError(f"this is no message: field {key >> 3} is cut short")
        yield Field(key >> 3, message[start:place], message[content_start:place])


def texts(message: bytes | memoryview, number: int) -> list[str]:
    """Returns the strings that a message has in one field."""
    return [bytes(field.content).decode() for field in fields(message) if field.number == number]


def number(field: int, value: int) -> bytes:
    """Writes a field that holds a number, not negative."""
    return _varint(field << 3) + _varint(value)


def content(field: int, value: bytes) -> bytes:
    """Writes a field that holds a string, bytes or a message."""
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _read_varint(message: memoryview, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while place < len(message):
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
    raise ValueError("this is no message: a number is cut short")


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
