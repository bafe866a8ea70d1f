"""Structured logs: one shape for Django, Celery and Sayso, as JSON lines or for a terminal. Pure.

What `structlog.contextvars` has bound (task, run and park ids; `project/celery.py` binds them) and
what a call passed in `extra` becomes a field of the line.
"""

import sys
from typing import Any

import structlog
from structlog.typing import Processor

STYLES = ("json", "console")


def processors() -> list[Processor]:
    """Return the steps that every record passes, whichever library wrote it."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def config(*, style: str, level: str) -> dict[str, Any]:
    """Return Django's `LOGGING` for style "json" or "console"; raises ValueError for another."""
    if style not in STYLES:
        raise ValueError(f"LOG_STYLE={style!r} is neither json nor console.")
    structlog.configure(
        processors=[*processors(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    render: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if style == "json":
        render += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        # Plain tracebacks: the pretty ones print local variables, and those hold people's data.
        render += [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": render,
                "foreign_pre_chain": processors(),
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": {
            # Django's own handlers would print each line a second time.
            "django": {"handlers": [], "propagate": True, "level": level.upper()},
            "django.server": {"handlers": [], "propagate": True},
            # uvicorn and httpx2 name each request at INFO.
            "uvicorn.access": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
            "amqp": {"level": "WARNING"},
        },
    }
