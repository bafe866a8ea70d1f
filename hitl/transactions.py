"""A transaction whose statements travel together: a unit of work, sent in few messages.

On PostgreSQL every statement is a round trip, and so are BEGIN and COMMIT. Here BEGIN, and every
statement that has nothing to tell, wait until the next statement is sent and travel in front of it;
COMMIT travels behind the last. What reaches the server is the same, in the same order; an error of
a statement that waited is raised where it is sent. A guarded write may wait as well: the server
itself stops at one that reaches no row. As in the unit of work of Fowler's *Patterns of Enterprise
Application Architecture*.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from django.db import DEFAULT_DB_ALIAS, DataError, NotSupportedError, connections, transaction

Otherwise = Callable[[], BaseException | None]
"""What tells why a statement reached no row; None where it sees no reason."""
Waiting = tuple[str, Otherwise | None]
"""SQL, and what tells why it reached no row, where it must reach one."""
BEGIN: Waiting = ("BEGIN", None)
INSISTING = "WITH changed AS ({}) SELECT 1 / count(*) FROM changed"
"""A statement that must reach a row: without one it fails, and with it all that is sent behind."""
JOINT = ";\n"
"""What stands between statements that travel together."""
Statement = tuple[str, list[Any]]
"""SQL and what is bound to it."""
NAME_CHARS_MAX = 50
PREPARED_MAX = 200
"""How many statements a connection keeps prepared, and how many values such a one may have."""


@contextmanager
def unit_of_work(*, durable: bool = False) -> Iterator[None]:
    """Do what `transaction.atomic` does, in fewer messages where one may hold several statements.

    With `durable` it insists on being the outermost. Inside another transaction, where the caller
    commits by hand or the project has chosen an isolation level, and on SQLite, it is `atomic`.
    """
    connection: Any = connections[DEFAULT_DB_ALIAS]
    by_others = connection.in_atomic_block or not connection.get_autocommit()
    # With an isolation level BEGIN is more than BEGIN, and the driver's to write.
    if by_others or not takes_several(connection) or connection.connection.isolation_level:
        with transaction.atomic(durable=durable):
            yield
        return
    try:
        with transaction.atomic(durable=durable):
            waiting = _Waiting(connection)
            with connection.execute_wrapper(waiting):
                yield
                if not connection.needs_rollback:
                    waiting.commit()
    except _Refused as refused:
        raise (_reason(refused.asked) or refused.error) from None


def send_together(
    connection: Any,
    statements: Sequence[Statement],
    *,
    otherwise: Otherwise | None = None,
) -> None:
    """Send statements that have nothing to tell: in a unit of work they wait for the next one.

    Elsewhere they are sent at once, as one message where the database takes it so. With `otherwise`
    each must return a row. If one does not, nothing behind it is done, and when that is known what
    `otherwise` returns is raised: in a unit of work at the end, when it is rolled back.
    """
    waiting = [one for one in connection.execute_wrappers if isinstance(one, _Waiting)]
    if waiting:
        if otherwise is not None:
            statements = [(INSISTING.format(sql), params) for sql, params in statements]
        waiting[-1].add(_bound(connection, statements), otherwise)
        return
    with connection.cursor() as cursor:
        for _ in _each(cursor, connection, statements):
            _check(cursor, otherwise)


def fetch_each(connection: Any, statements: Sequence[Statement]) -> list[list[Any]]:
    """Return the rows of each of these statements, asked in one message where that may be."""
    with connection.cursor() as cursor:
        return [cursor.fetchall() for _ in _each(cursor, connection, statements)]


def _each(cursor: Any, connection: Any, statements: Sequence[Statement]) -> Iterator[None]:
    """Send these statements and go from one's result to the next one's."""
    if not statements:
        return
    if takes_several(connection):
        with _outdated(connection):
            cursor.execute(JOINT.join(_bound(connection, statements)))
        yield
        for _ in statements[1:]:
            cursor.nextset()
            yield
    else:
        for sql, params in statements:
            cursor.execute(sql, params)
            yield


def _check(cursor: Any, otherwise: Otherwise | None) -> None:
    if otherwise is not None and cursor.fetchone() is None:
        raise otherwise() or AssertionError("A statement reached no row, and nothing tells why.")


def _reason(asked: Iterable[Otherwise]) -> BaseException | None:
    """Return why one of these statements reached no row: the first reason that there is."""
    reasons = (otherwise() for otherwise in asked)
    return next((reason for reason in reasons if reason is not None), None)


class _Refused(BaseException):
    """One of the statements that must reach a row did not; nothing of the transaction is kept."""

    def __init__(self, asked: Sequence[Otherwise], error: Exception) -> None:
        super().__init__()
        self.asked, self.error = asked, error


def _bound(connection: Any, statements: Sequence[Statement]) -> list[str]:
    """Return statements with their values written into them, by the driver's own rules.

    Together, since the driver asks itself anew for each statement how to write a value of a type.
    What comes often is prepared first, and called.
    """
    from psycopg.adapt import Transformer  # a project on SQLite has no psycopg

    connection.ensure_connection()
    raw = connection.connection
    prepared = _prepared.get(raw)
    if prepared is None:
        prepared = _prepared[raw] = _Prepared()
    literal = Transformer(raw).as_literal
    bound = []
    with connection.wrap_database_errors:
        for sql, params in statements:
            values = ["NULL" if one is None else literal(one).decode() for one in params]
            name = prepared.name(raw, sql, len(params))
            bound.append(f'EXECUTE "{name}"({", ".join(values)})' if name else sql % tuple(values))
    return bound


class _Prepared:
    """What one connection has prepared: the statements that it sends often.

    PostgreSQL neither parses nor plans such a one anew, which is a third of what it does for the
    small statements here. The driver would send each in a message of its own; `PREPARE` and
    `EXECUTE`, which are SQL, travel together with others. As the driver does, this prepares what
    was sent `prepare_threshold` times, and nothing where the project has not set that option.
    """

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()
        self._names: dict[str, str] = {}

    def name(self, raw: Any, sql: str, count: int) -> str | None:
        """Return the name under which this connection has SQL of so many values prepared."""
        name = self._names.get(sql)
        if name is not None or raw.prepare_threshold is None or not 0 < count <= PREPARED_MAX:
            return name
        self._uses[sql] += 1
        if self._uses[sql] <= raw.prepare_threshold or len(self._names) >= PREPARED_MAX:
            return None
        told = " ".join(re.findall(r"[A-Za-z_]+", sql))[:NAME_CHARS_MAX]
        name = f"{told} {len(self._names)}"
        places = tuple(f"${number}" for number in range(1, count + 1))
        raw.execute(f'PREPARE "{name}" AS {sql % places}')
        self._names[sql] = name
        return name


@contextmanager
def _outdated(connection: Any) -> Iterator[None]:
    """Give a connection up on which a prepared statement does not fit its table any more.

    A migration has changed the type of a column. Django closes it before the next request or task.
    """
    try:
        yield
    except NotSupportedError:
        connection.close_at = 0
        raise


_prepared: WeakKeyDictionary[Any, _Prepared] = WeakKeyDictionary()
"""By the driver's connections. None of it refers to its connection, which would keep that alive."""


def takes_several(connection: Any) -> bool:
    """Tell whether one message may hold several statements: with parameters bound by the client."""
    options = connection.settings_dict["OPTIONS"]
    return connection.vendor == "postgresql" and not options.get("server_side_binding")


class _Waiting:
    """The statements of one transaction that wait to be sent, as a wrapper of `execute`."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.statements: list[Waiting] = [BEGIN]
        # Django opened the transaction already, to the driver: that it send BEGIN itself is undone
        # here. It commits and rolls back by what the server says, so both stay as they are.
        connection.ensure_connection()
        connection.connection.autocommit = True

    def add(self, statements: Iterable[str], otherwise: Otherwise | None) -> None:
        """Let these wait; with `otherwise` each fails if it reaches no row."""
        self.statements += [(sql, otherwise) for sql in statements]

    def __call__(
        self,
        execute: Callable[..., Any],
        sql: str,
        params: Any,
        many: bool,
        context: dict[str, Any],
    ) -> Any:
        """Send what waits in front of this statement."""
        before, self.statements = self.statements, []
        if not before:
            return execute(sql, params, many, context)
        if many:  # the driver sends it once for each set of values
            self.statements = before
            with self.connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            return execute(sql, params, many, context)
        cursor = context["cursor"]
        try:
            if params is not None and before != [BEGIN]:
                with self.connection.wrap_database_errors:
                    sql, params = cursor.mogrify(sql, params), None
            together = JOINT.join([*(held for held, _ in before), sql])
            with _outdated(self.connection):
                result = execute(together, params, many, context)
        except Exception as error:
            if not self._has_failed():  # it could not be sent, so what waited still does
                self.statements = before
            _blame(before, error)
            raise
        for _ in before:
            cursor.nextset()
        return result

    def commit(self) -> None:
        """Send what waits, if anything, and COMMIT behind it."""
        before, self.statements = self.statements, []
        if before and before != [BEGIN]:
            with self.connection.cursor() as cursor:
                try:
                    cursor.execute(JOINT.join([*(held for held, _ in before), "COMMIT"]))
                except DataError as error:
                    _blame(before, error)
                    raise

    def _has_failed(self) -> bool:
        """Tell whether the server has refused something, or is gone."""
        from psycopg.pq import TransactionStatus

        status = self.connection.connection.info.transaction_status
        return status not in (TransactionStatus.IDLE, TransactionStatus.INTRANS)


def _blame(sent: Iterable[Waiting], error: Exception) -> None:
    """Raise `_Refused` if this is the error of a statement that insists on a row."""
    from psycopg.errors import DivisionByZero

    asked = [otherwise for _, otherwise in sent if otherwise is not None]
    if asked and isinstance(error.__cause__, DivisionByZero):
        raise _Refused(asked, error)
