"""The statements that every run sends: guarded writes that report what they changed, and inserts.

Every transition is a compare-and-set, `UPDATE … RETURNING`. Django's `update()` tells how many rows
matched, but not what they hold afterwards; a second query for that would be one more round trip,
and the row could have changed again. PostgreSQL and SQLite (3.35) know the clause; Django 5.2 has
no word for it.

The SQL of each statement is built once per process, which costs a tenth of compiling a queryset.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import AutoField, Model, QuerySet
from django.db.models.base import ModelState
from django.db.models.sql import UpdateQuery

from hitl.reads import Preparer, fields_of, from_row, prepared, preparers, whole
from hitl.transactions import Otherwise, fetch_each, send_together

M = TypeVar("M", bound=Model)
Group = Sequence[Model]
"""New rows of one table."""
Built = tuple[str, tuple[Preparer | None, ...]]
"""SQL with a placeholder for each value, and what makes these values fit for the driver."""
Converter = tuple[int, Any, Any]
"""A place in a row, its column, and the function that turns the raw value into the field's."""


class CountedBack(list[M]):
    """New rows whose `column` holds how far each is behind `counter` of the row `of` by this id.

    Whoever inserts them need not know what the counter is at by then: the database counts.
    """

    def __init__(
        self, rows: Iterable[M], column: str, of: type[Model], counter: str, counter_id: UUID
    ) -> None:
        super().__init__(rows)
        self.column, self.of, self.counter, self.counter_id = column, of, counter, counter_id


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


class Change(Generic[M]):
    """A guarded write of one row, not yet sent: what `compare_and_set` takes."""

    def __init__(
        self,
        model: type[M],
        where: Mapping[str, Any],
        *,
        set: Mapping[str, Any],  # noqa: A002
        add: Mapping[str, int] = MappingProxyType({}),
        also: Also = NOTHING_MORE,
        returning: tuple[str, ...],
        reading: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        connection = connections[DEFAULT_DB_ALIAS]
        shape = (
            *(model, tuple(where), tuple(set), tuple(add), also.sql),
            *(returning, tuple(reading), connection.vendor),
        )
        built = _statements.get(shape)
        if built is None:
            built = _statements[shape] = _build(
                model, where, set, add, also, returning, reading, connection
            )
        sql, prepare = built
        others = (value for _, value in also.values)
        given = [*set.values(), *add.values(), *where.values(), *others]
        self.statement = sql, prepared(prepare, given, connection)
        self.model, self.returning, self.reading = model, returning, reading

    def row(self, found: Any) -> M | None:
        """Return the row that came back."""
        if found is None:
            return None
        count = len(self.returning)
        connection = connections[DEFAULT_DB_ALIAS]
        row = from_row(self.model, DEFAULT_DB_ALIAS, self.returning, found[:count], connection)
        for name, value in zip(self.reading, found[count:], strict=True):
            setattr(row, name, value)
        return row


def compare_and_set(model: type[M], where: Mapping[str, Any], **change: Any) -> M | None:
    """Change the one row that is as `where` says, and return it; None when it is not so any more.

    `where` and `set` map field names to values, `add` field names to what is added. The row comes
    back with the fields of `returning` alone; it stays locked until the transaction ends. `reading`
    maps further attributes of it to queries of one plain value each, which cost no round trip.
    """
    return compare_and_set_each([Change(model, where, **change)])[0]


def compare_and_set_each(changes: Sequence[Change[Any]]) -> list[Any]:
    """Do what `compare_and_set` does for each of these in turn, in one round trip."""
    found = fetch_each(connections[DEFAULT_DB_ALIAS], [change.statement for change in changes])
    return [
        change.row(rows[0] if rows else None) for change, rows in zip(changes, found, strict=True)
    ]


def change_later(change: Change[Any], otherwise: Otherwise) -> None:
    """Make a change together with what is sent next, in a unit of work.

    If it matches nothing, nothing behind it is done, the transaction is rolled back, and what
    `otherwise` returns then is raised.
    """
    send_together(connections[DEFAULT_DB_ALIAS], [change.statement], otherwise=otherwise)


def lock_row(model: type[M], row_id: UUID, names: tuple[str, ...] = ()) -> M | None:
    """Return a row, locked until the transaction ends; None when it is gone.

    It holds the columns of `names`, by default all. SQLite has no locks on rows: there the
    transaction itself holds everyone else off.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    held = names or whole(model)
    shape = (model, held, connection.vendor)
    built = _statements.get(shape)
    if built is None:
        quote = connection.ops.quote_name
        columns = ", ".join(quote(str(field.column)) for field in fields_of(model, *held))
        locking = " FOR UPDATE" if connection.features.has_select_for_update else ""
        sql = f"SELECT {columns} FROM {quote(model._meta.db_table)} WHERE id = %s{locking}"  # noqa: S608
        built = _statements[shape] = sql, preparers([model._meta.pk], connection)
    sql, prepare = built
    [found] = fetch_each(connection, [(sql, prepared(prepare, [row_id], connection))])
    return from_row(model, DEFAULT_DB_ALIAS, held, found[0], connection) if found else None


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

    What goes into several tables travels as one message where the database takes it so, in a unit
    of work together with what is sent next. Signals and `save()` are passed over, as in
    `bulk_create`.
    """
    connection: Any = connections[DEFAULT_DB_ALIAS]
    inserts = [_insert(type(group[0]), group, connection) for group in groups if group]
    send_together(connection, inserts)


def _insert(model: type[Model], rows: Group, connection: Any) -> tuple[str, list[Any]]:
    """Return `INSERT …` for rows of one table, with its parameters."""
    counted = rows if isinstance(rows, CountedBack) else None
    names = _inserted(model)
    place = None if counted is None else names.index(counted.column)
    counting = None if counted is None else (place, counted.of, counted.counter)
    shape = (model, len(rows), counting, connection.vendor)
    built = _statements.get(shape)
    if built is None:
        built = _statements[shape] = _build_insert(model, len(rows), counted, connection)
    sql, prepare = built
    params = []
    for row in rows:
        values = vars(row)
        given = [values[name] for name in names]
        if counted is not None and place is not None:
            given.insert(place, counted.counter_id)
        params += prepared(prepare, given, connection)
        row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS
    return sql, params


def _build_insert(
    model: type[Model], count: int, counted: CountedBack[Any] | None, connection: Any
) -> Built:
    quote, fields, given = connection.ops.quote_name, fields_of(model, *_inserted(model)), []
    places = []
    for field in fields:
        if counted is not None and field.attname == counted.column:
            key, table = counted.of._meta.pk, quote(counted.of._meta.db_table)
            of = f"SELECT {quote(counted.counter)} FROM {table} WHERE {quote(key.column)} = %s"  # noqa: S608
            places.append(f"({of}) - %s")
            given += [key, field]
        else:
            places.append("%s")
            given.append(field)
    columns = ", ".join(quote(str(field.column)) for field in fields)
    rows = ", ".join([f"({', '.join(places)})"] * count)
    sql = f"INSERT INTO {quote(model._meta.db_table)} ({columns}) VALUES {rows}"  # noqa: S608
    return sql, preparers(given, connection)


@cache
def _inserted(model: type[Model]) -> tuple[str, ...]:
    """Return the names that an insert gives: all but a number that the database gives out."""
    return tuple(
        field.attname
        for field in fields_of(model)
        if not isinstance(field, AutoField) and not getattr(field, "generated", False)
    )


def new(model: type[M], **values: Any) -> M:
    """Return a row to insert, as `model(**values)` does, past its signals and most of its time.

    Names are those of columns: `run_id`, not `run`.
    """
    constant, made = _defaults(model)
    if not values.keys() <= constant.keys():
        raise TypeError(f"{model.__name__} has no {values.keys() - constant.keys()}.")
    row = model.__new__(model)
    row._state = ModelState()
    kept = vars(row)
    kept.update(constant)
    kept.update(values)
    for name, make in made:
        if name not in values:
            kept[name] = make()
    return row


@cache
def _defaults(model: type[Model]) -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """Return the default of each column: those that stay the same, and what makes the others."""
    constant: dict[str, Any] = {}
    made = []
    for field in fields_of(model):
        is_made = field.has_default() and callable(field.default)
        constant[field.attname] = None if is_made else field.get_default()
        if is_made:
            made.append((field.attname, field.default))
    return constant, made


_statements: dict[Any, Built] = {}


def _build(
    model: type[Model],
    where: Iterable[str],
    set: Iterable[str],  # noqa: A002
    add: Iterable[str],
    also: Also,
    returning: tuple[str, ...],
    reading: Mapping[str, str],
    connection: Any,
) -> Built:
    """Return `UPDATE … SET … WHERE … RETURNING …` with a placeholder for each value."""
    fields = {field.attname: field for field in fields_of(model)}
    columns = {name: connection.ops.quote_name(field.column) for name, field in fields.items()}
    changes = [f"{columns[name]} = %s" for name in set]
    changes += [f"{columns[name]} = {columns[name]} + %s" for name in add]
    conditions = [f"{columns[name]} = %s" for name in where]
    conditions += [f"({also.sql})"] if also.sql else []
    returned = [*(columns[name] for name in returning), *(f"({sql})" for sql in reading.values())]
    sql = (
        f"UPDATE {connection.ops.quote_name(model._meta.db_table)} "  # noqa: S608
        f"SET {', '.join(changes)} WHERE {' AND '.join(conditions)} "
        f"RETURNING {', '.join(returned)}"
    )
    given = [*set, *add, *where, *(name for name, _ in also.values)]
    return sql, preparers([fields[name] for name in given], connection)
