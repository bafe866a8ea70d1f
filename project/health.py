"""Two probes: is the process alive, and can it do its work. Reads only.

Neither asks the broker: answers are rows, and a person's answer is taken while the broker is down.
"""

import logging

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

log = logging.getLogger(__name__)

# Reading all migrations costs a disk scan; once they are applied they stay so for this process.
_migrated: set[str] = set()


@require_safe
@never_cache
def alive(request: HttpRequest) -> JsonResponse:
    """Answer 200 while the process serves requests at all."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def ready(request: HttpRequest) -> JsonResponse:
    """Answer 200 if the database answers and has every migration, else 503 and what is missing."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        migrated = _is_migrated()
    except DatabaseError:
        # The reason stays in the log: it can name hosts and users.
        log.exception("The database does not answer.")
        return JsonResponse({"status": "unavailable", "database": "no answer"}, status=503)
    if not migrated:
        return JsonResponse({"status": "unavailable", "database": "not migrated"}, status=503)
    return JsonResponse({"status": "ok"})


def _is_migrated() -> bool:
    if connection.alias in _migrated:
        return True
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return False
    _migrated.add(connection.alias)
    return True
