"""Wiring only: settings from the environment, the Celery app, URLs, ASGI and WSGI."""

from project.celery import app as celery_app

__all__ = ["celery_app"]
