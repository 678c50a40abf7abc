"""Logs as one JSON object a line, on standard error, with the trace id of the call being served."""

import json
import logging
import sys
import time

from services.common import tracing

_PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _JsonFormatter(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "service": self._service,
            "message": record.getMessage(),
        }
        if trace := tracing.trace_id():
            entry["trace_id"] = trace
        entry |= {key: value for key, value in vars(record).items() if key not in _PLAIN and value != ""}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def configure(service: str, level: str = "INFO") -> None:
    """Sends every log record of this process to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter(service))
    logging.basicConfig(level=level, handlers=[handler], force=True)
