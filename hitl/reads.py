"""Plain SELECTs, built once: what every run reads, without compiling a queryset each time.

Reads only. A queryset costs several times what its query does; for the few reads that each segment
and each answer make, that was most of their time.
"""

from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model

M = TypeVar("M", bound=Model)
Converter = tuple[int, Any, Any]
"""A place in a row, its column, and the function that turns the raw value into the field's."""


class Select:
    """A query that is built once: these columns of one or more tables, and what follows in SQL.

    `given` are the fields whose values a call gives, one for each `%s`. A call returns the rows as
    lists of the fields' own values.
    """

    def __init__(self, columns: Iterable[Any], rest: str, *, given: Sequence[Any]) -> None:
        self.columns = tuple(columns)
        self.rest = rest
        self.given = given
        self._converters: dict[str, list[Converter]] = {}

    def __call__(self, *values: Any) -> list[list[Any]]:
        """Ask the database."""
        connection = connections[DEFAULT_DB_ALIAS]
        converters = self._converters.get(connection.vendor)
        if converters is None:
            converters = self._converters[connection.vendor] = _converters(self.columns, connection)
        params = [
            field.get_db_prep_save(value, connection)
            for field, value in zip(self.given, values, strict=True)
        ]
        with connection.cursor() as cursor:
            cursor.execute(self._sql, params)
            found = cursor.fetchall()
        return [_converted(row, converters, connection) for row in found]

    def instances(self, *values: Any) -> list[Any]:
        """Ask the database, and return the rows as instances of the one model they are of.

        They hold the columns of this query; any other is fetched when it is asked for.
        """
        return [self._model.from_db(DEFAULT_DB_ALIAS, self._names, row) for row in self(*values)]

    @cached_property
    def _model(self) -> type[Model]:
        [model] = {field.model for field in self.columns}
        assert self._names == ordered(model, self._names), "in the order of the columns"
        return model

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(field.attname for field in self.columns)

    @cached_property
    def _sql(self) -> str:
        named = (f'"{field.model._meta.db_table}"."{field.column}"' for field in self.columns)
        return f"SELECT {', '.join(named)} {self.rest}"


def fields_of(model: type[Model], *names: str) -> list[Any]:
    """Return the fields of a model by these names; without names all of its columns."""
    return [model._meta.get_field(name) for name in names or whole(model)]


def ordered(model: type[Model], names: Iterable[str]) -> tuple[str, ...]:
    """Return these names in the order of the columns, which `Model.from_db` asks for."""
    wanted = set(names)
    return tuple(name for name in whole(model) if name in wanted)


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
    return model.from_db(using, names, _converted(row, converters, connection))


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
