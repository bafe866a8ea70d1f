"""The statements that every run sends: guarded writes that report what they changed, and inserts.

Every transition is a compare-and-set, `UPDATE … RETURNING`. Django's `update()` tells how many rows
matched, but not what they hold afterwards; a second query for that would be one more round trip,
and the row could have changed again. PostgreSQL and SQLite (3.35) know the clause; Django 5.2 has
no word for it.

The SQL of each statement is built once per process, which costs a tenth of compiling a queryset.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import AutoField, Model, QuerySet
from django.db.models.sql import UpdateQuery

from hitl.reads import fields_of, from_row, ordered, whole

M = TypeVar("M", bound=Model)
Group = Sequence[Model]
"""New rows of one table."""
Converter = tuple[int, Any, Any]
"""A place in a row, its column, and the function that turns the raw value into the field's."""


def update_returning(queryset: QuerySet[M], **changes: Any) -> list[M]:
    """Apply `changes` to the rows of `queryset` and return them as they now are.

    An empty list means that the guard matched nothing: the caller lost. The rows are locked until
    the transaction ends. `changes` may hold expressions, as for `update()`.
    """
    model = queryset.model
    connection = connections[queryset.db]
    query: Any = queryset.query.chain(UpdateQuery)
    query.add_update_values(changes)
    query.clear_ordering(force=True)
    sql, params = query.get_compiler(using=queryset.db).as_sql()
    fields = model._meta.concrete_fields
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} RETURNING {columns}", params)
        found = cursor.fetchall()
    names = tuple(field.attname for field in fields)
    return [from_row(model, queryset.db, names, row, connection) for row in found]


@dataclass(frozen=True, slots=True)
class Also:
    """A condition that is more than an equality, in SQL, with its parameters and their fields."""

    sql: str
    values: tuple[tuple[str, Any], ...] = ()


NOTHING_MORE = Also("")


def compare_and_set(
    model: type[M],
    where: Mapping[str, Any],
    *,
    set: Mapping[str, Any],  # noqa: A002
    add: Mapping[str, int] = MappingProxyType({}),
    also: Also = NOTHING_MORE,
    returning: tuple[str, ...],
    reading: Mapping[str, str] = MappingProxyType({}),
) -> M | None:
    """Change the one row that is as `where` says, and return it; None when it is not so any more.

    `where` and `set` map field names to values, `add` field names to what is added. The row comes
    back with the fields of `returning` alone; it stays locked until the transaction ends. `reading`
    maps further attributes of it to queries of one plain value each, which cost no round trip.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    shape = (
        *(model, tuple(where), tuple(set), tuple(add), also.sql),
        *(returning, tuple(reading), connection.vendor),
    )
    sql = _statements.get(shape)
    if sql is None:
        sql = _statements[shape] = _build(
            model, where, set, add, also, returning, reading, connection
        )
    fields = _named(model)
    params = [
        *(fields[name].get_db_prep_save(value, connection) for name, value in set.items()),
        *add.values(),
        *(fields[name].get_db_prep_save(value, connection) for name, value in where.items()),
        *(fields[name].get_db_prep_save(value, connection) for name, value in also.values),
    ]
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        found = cursor.fetchone()
    if found is None:
        return None
    own = found[: len(returning)]
    row = from_row(model, DEFAULT_DB_ALIAS, returning, own, connection)
    for name, value in zip(reading, found[len(returning) :], strict=True):
        setattr(row, name, value)
    return row


@cache
def _named(model: type[Model]) -> dict[str, Any]:
    return {field.attname: field for field in fields_of(model)}


def lock_row(model: type[M], row_id: UUID) -> M | None:
    """Return a row, locked until the transaction ends; None when it is gone.

    SQLite has no locks on rows: there the transaction itself holds everyone else off.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    sql = _statements.get((model, connection.vendor))
    if sql is None:
        quote = connection.ops.quote_name
        columns = ", ".join(quote(str(field.column)) for field in model._meta.concrete_fields)
        locking = " FOR UPDATE" if connection.features.has_select_for_update else ""
        sql = f"SELECT {columns} FROM {quote(model._meta.db_table)} WHERE id = %s{locking}"  # noqa: S608
        _statements[model, connection.vendor] = sql
    key = model._meta.pk.get_db_prep_save(row_id, connection)
    with connection.cursor() as cursor:
        cursor.execute(sql, [key])
        found = cursor.fetchone()
    if found is None:
        return None
    return from_row(model, DEFAULT_DB_ALIAS, whole(model), found, connection)


def locked_free(queryset: QuerySet[M]) -> list[M]:
    """Return those of these rows that nobody else holds, locked until the transaction ends.

    On SQLite that is all of them: there the transaction holds everyone else off.
    """
    features = connections[queryset.db].features
    if not features.has_select_for_update_skip_locked:
        return list(queryset)
    return list(queryset.select_for_update(skip_locked=True))


def insert(*groups: Group) -> None:
    """Insert new rows in the caller's transaction, each group of one table, in this order.

    What goes into several tables travels as one message where the database takes it so: a round
    trip each would cost more than the rows do. Signals and `save()` are passed over, as in
    `bulk_create`.
    """
    connection: Any = connections[DEFAULT_DB_ALIAS]
    inserts = [_insert(type(group[0]), group, connection) for group in groups if group]
    with connection.cursor() as cursor:
        if len(inserts) > 1 and _takes_several(connection):
            # Bound one by one: the driver remembers how to bind a short statement, not a long one.
            bound = (connection.ops.compose_sql(sql, params) for sql, params in inserts)
            cursor.execute(JOINT.join(bound))
        else:
            for sql, params in inserts:
                cursor.execute(sql, params)


JOINT = ";\n"
"""What stands between statements that travel together."""


def _takes_several(connection: Any) -> bool:
    """Tell whether one message may hold several statements: with parameters bound by the client."""
    options = connection.settings_dict["OPTIONS"]
    return connection.vendor == "postgresql" and not options.get("server_side_binding")


def _insert(model: type[Model], rows: Group, connection: Any) -> tuple[str, list[Any]]:
    """Return `INSERT …` for rows of one table, with its parameters."""
    fields = _inserted(model)
    params = []
    for row in rows:
        params += [
            field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields
        ]
        row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS
    shape = (model, len(rows), connection.vendor)
    sql = _statements.get(shape)
    if sql is None:
        quote = connection.ops.quote_name
        columns = ", ".join(quote(str(field.column)) for field in fields)
        places = ", ".join([f"({', '.join(['%s'] * len(fields))})"] * len(rows))
        sql = f"INSERT INTO {quote(model._meta.db_table)} ({columns}) VALUES {places}"  # noqa: S608
        _statements[shape] = sql
    return sql, params


@cache
def _inserted(model: type[Model]) -> tuple[Any, ...]:
    """Return the fields that an insert names: all but a number that the database gives out."""
    return tuple(
        field
        for field in fields_of(model)
        if not isinstance(field, AutoField) and not getattr(field, "generated", False)
    )


_statements: dict[Any, str] = {}


def _build(
    model: type[Model],
    where: Iterable[str],
    set: Iterable[str],  # noqa: A002
    add: Iterable[str],
    also: Also,
    returning: tuple[str, ...],
    reading: Mapping[str, str],
    connection: Any,
) -> str:
    """Return `UPDATE … SET … WHERE … RETURNING …` with a placeholder for each value."""
    assert returning == ordered(model, returning), "in the order of the columns"
    columns = {
        field.attname: connection.ops.quote_name(field.column)
        for field in model._meta.concrete_fields
    }
    changes = [f"{columns[name]} = %s" for name in set]
    changes += [f"{columns[name]} = {columns[name]} + %s" for name in add]
    conditions = [f"{columns[name]} = %s" for name in where]
    conditions += [f"({also.sql})"] if also.sql else []
    returned = [*(columns[name] for name in returning), *(f"({sql})" for sql in reading.values())]
    return (
        f"UPDATE {connection.ops.quote_name(model._meta.db_table)} "  # noqa: S608
        f"SET {', '.join(changes)} WHERE {' AND '.join(conditions)} "
        f"RETURNING {', '.join(returned)}"
    )
