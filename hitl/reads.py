"""Plain SELECTs, built once: what every run reads, without compiling a queryset each time.

Reads only. A queryset costs several times what its query does; for the few reads that each segment
and each answer make, that was most of their time.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.models import Model
from django.db.models.base import ModelState

from hitl.transactions import Statement, fetch_each

M = TypeVar("M", bound=Model)
Converter = tuple[int, Any, Any]
"""A place in a row, its column, and the function that turns the raw value into the field's."""
Preparer = Callable[[Any, Any], Any]
"""What makes a value fit for the driver of a connection."""
PLAIN = {models.CharField, models.TextField, models.BooleanField}
"""Fields of which each driver takes the values as they are."""
PLAIN_TO_PSYCOPG = {
    models.UUIDField,
    models.DateTimeField,
    models.IntegerField,
    models.PositiveIntegerField,
    models.PositiveSmallIntegerField,
    models.BigIntegerField,
    models.PositiveBigIntegerField,
}


class Select:
    """A query that is built once: these columns of one or more tables, and what follows in SQL.

    `given` are the fields whose values a call gives, one for each `%s`. A call returns the rows as
    lists of the fields' own values.
    """

    def __init__(self, columns: Iterable[Any], rest: str, *, given: Sequence[Any]) -> None:
        self.columns = tuple(columns)
        self.rest = rest
        self.given = given
        self._prepare: dict[str, tuple[Preparer | None, ...]] = {}
        self._converters: dict[str, list[Converter]] = {}

    def __call__(self, *values: Any) -> list[list[Any]]:
        """Ask the database."""
        return ask_each([(self, values)])[0]

    def instances(self, rows: Iterable[list[Any]]) -> list[Any]:
        """Return rows that came back as instances of the one model they are of.

        They hold the columns of this query; any other is fetched when it is asked for.
        """
        return [instance(self._model, DEFAULT_DB_ALIAS, self._names, row) for row in rows]

    def statement(self, values: Sequence[Any], connection: Any) -> Statement:
        """Return the query with these values."""
        prepare = self._prepare.get(connection.vendor)
        if prepare is None:
            prepare = self._prepare[connection.vendor] = preparers(self.given, connection)
        return self._sql, prepared(prepare, values, connection)

    def converted(self, found: Iterable[Any], connection: Any) -> list[list[Any]]:
        """Return raw rows with the fields' own values."""
        converters = self._converters.get(connection.vendor)
        if converters is None:
            converters = self._converters[connection.vendor] = _converters(self.columns, connection)
        return [_converted(row, converters, connection) for row in found]

    @cached_property
    def _model(self) -> type[Model]:
        [model] = {field.model for field in self.columns}
        return model

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(field.attname for field in self.columns)

    @cached_property
    def _sql(self) -> str:
        named = (f'"{field.model._meta.db_table}"."{field.column}"' for field in self.columns)
        return f"SELECT {', '.join(named)} {self.rest}"


def ask_each(asked: Sequence[tuple[Select, Sequence[Any]]]) -> list[list[list[Any]]]:
    """Ask several queries, each with its values, in one round trip where that may be."""
    connection = connections[DEFAULT_DB_ALIAS]
    found = fetch_each(connection, [one.statement(values, connection) for one, values in asked])
    return [one.converted(rows, connection) for (one, _), rows in zip(asked, found, strict=True)]


def fields_of(model: type[Model], *names: str) -> list[Any]:
    """Return the fields of a model by these names; without names all of its columns."""
    return [model._meta.get_field(name) for name in names or whole(model)]


@cache
def whole(model: type[Model]) -> tuple[str, ...]:
    """Return the names of all columns of a model."""
    return tuple(field.attname for field in model._meta.concrete_fields)


def from_row(model: type[M], using: str, names: tuple[str, ...], row: Any, connection: Any) -> M:
    """Build a model instance from raw column values, as the ORM would on reading."""
    shape = (model, names, connection.vendor)
    converters = _found_converters.get(shape)
    if converters is None:
        fields = [model._meta.get_field(name) for name in names]
        converters = _found_converters[shape] = _converters(fields, connection)
    return instance(model, using, names, _converted(row, converters, connection))


def instance(model: type[M], using: str, names: Iterable[str], values: Iterable[Any]) -> M:
    """Return a stored row as an instance that holds these columns.

    As `Model.from_db` does, past `__init__` and its signals, which take most of its time.
    """
    row = model.__new__(model)
    row._state = ModelState()
    row._state.adding, row._state.db = False, using
    vars(row).update(zip(names, values, strict=True))
    return row


def preparers(fields: Iterable[Any], connection: Any) -> tuple[Preparer | None, ...]:
    """Return what makes values of these fields fit for the driver; None where they are already.

    Asking a field costs more than sending its value does, and most have nothing to do.
    """
    plain = PLAIN | (PLAIN_TO_PSYCOPG if connection.vendor == "postgresql" else set())
    return tuple(
        None if type(_stored_as(field)) in plain else field.get_db_prep_save for field in fields
    )


def _stored_as(field: Any) -> Any:
    return field.target_field if field.is_relation else field


def prepared(
    prepare: Iterable[Preparer | None], values: Iterable[Any], connection: Any
) -> list[Any]:
    """Return these values as the driver takes them."""
    return [
        value if made is None else made(value, connection)
        for made, value in zip(prepare, values, strict=True)
    ]


def _converters(fields: Sequence[Any], connection: Any) -> list[Converter]:
    """Return what turns the raw values of these fields into their own."""
    found = []
    for place, field in enumerate(fields):
        column = field.get_col(field.model._meta.db_table)
        converters = connection.ops.get_db_converters(column) + field.get_db_converters(connection)
        found += [(place, column, convert) for convert in converters]
    return found


def _converted(row: Iterable[Any], converters: list[Converter], connection: Any) -> list[Any]:
    values = list(row)
    for place, column, convert in converters:
        values[place] = convert(values[place], column, connection)
    return values


_found_converters: dict[Any, list[Converter]] = {}
