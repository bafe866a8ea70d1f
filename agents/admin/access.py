"""What the screens of agents ask of a request: may she, and which row does the address name."""

from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404

from hitl import parks

M = TypeVar("M", bound=Model)


def may(user: Any, permission: str) -> bool:
    """Tell whether this user holds a permission. Inactive and anonymous users hold none."""
    return bool(user.is_active and user.has_perm(permission))


def find(rows: QuerySet[M], user: Any, object_id: str, *, needs: str) -> M:
    """Fetch a row for those who may see such rows; for others there is none."""
    row_id = parks.as_uuid(object_id)
    if row_id is None or not may(user, needs):
        raise Http404
    return get_object_or_404(rows, id=row_id)


def number(request: HttpRequest, name: str) -> int | None:
    """Read a number from the address; what is none, or absurd, counts as absent."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
