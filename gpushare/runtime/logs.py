"""Structured logs on standard error: JSON lines in a cluster, colours on a terminal."""

import logging
import sys

import structlog


def configure(level: str) -> None:
    """Set up structlog and let the libraries' own logs (warnings and worse) through it."""
    threshold = logging.getLevelNamesMapping().get(level.upper(), logging.WARNING)
    renderer = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.dict_tracebacks
            if not sys.stderr.isatty()
            else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
