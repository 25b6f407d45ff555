"""Log lines as JSON, each with the request that it belongs to."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

current_request_id: ContextVar[str | None] = ContextVar("current_request_id", default=None)
"""The name of the request that is being worked on."""

# What every record has; anything else came through `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, request id and what was added."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        data: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": current_request_id.get(),
        }
        data |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        return json.dumps(data, default=str)
