"""A model field for JSON that must come back exactly as it went in. Pure."""

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.fields.mixins import CheckFieldDefaultMixin

from hitl import values

if TYPE_CHECKING:
    TextOfAny = models.TextField[Any, Any]  # any JSON goes in and comes out
else:
    TextOfAny = models.TextField


class JSONText(CheckFieldDefaultMixin, TextOfAny):
    """JSON kept as canonical ASCII text.

    PostgreSQL's jsonb reorders keys, rounds nothing but rejects NUL and lone surrogates; as text a
    digest over the stored bytes holds and nothing is refused. None is stored as SQL NULL. A value
    that is not plain JSON raises NotJson: clean it first (`hitl.values.clean`).
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_lookup_exact_type: Any

    description = "JSON as text"
    _default_hint = ("dict", "{}")

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> values.JSON:
        return None if value is None else values.loads(value)

    def to_python(self, value: Any) -> Any:
        return value

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else values.dumps(value)

    def value_to_string(self, obj: models.Model) -> Any:
        return self.value_from_object(obj)
