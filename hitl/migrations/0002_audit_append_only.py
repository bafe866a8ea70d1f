"""The database itself refuses to change or remove what the audit trail and its chain say.

One column may change once: the seal that a row of the trail is given. To empty a test database
still works: PostgreSQL's TRUNCATE fires no such trigger, and for SQLite the `flush` command of this
app lifts them. To generate 0001 anew, move this file aside and back.
"""

from django.db import migrations

SAYS = "id, park_id, verb, actor, system, channel, reason, detail, at, hash"

POSTGRESQL = [
    """
    CREATE FUNCTION hitl_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END $$
    """,
    """
    CREATE TRIGGER hitl_decision_no_delete BEFORE DELETE ON hitl_decision
    FOR EACH ROW EXECUTE FUNCTION hitl_append_only()
    """,
    f"""
    CREATE TRIGGER hitl_decision_no_update BEFORE UPDATE OF {SAYS} ON hitl_decision
    FOR EACH ROW EXECUTE FUNCTION hitl_append_only()
    """,
    """
    CREATE TRIGGER hitl_decision_one_seal BEFORE UPDATE OF seal_id ON hitl_decision
    FOR EACH ROW WHEN (OLD.seal_id IS NOT NULL) EXECUTE FUNCTION hitl_append_only()
    """,
    """
    CREATE TRIGGER hitl_seal_no_change BEFORE UPDATE OR DELETE ON hitl_seal
    FOR EACH ROW EXECUTE FUNCTION hitl_append_only()
    """,
]
POSTGRESQL_BACK = [
    "DROP TRIGGER hitl_decision_no_delete ON hitl_decision",
    "DROP TRIGGER hitl_decision_no_update ON hitl_decision",
    "DROP TRIGGER hitl_decision_one_seal ON hitl_decision",
    "DROP TRIGGER hitl_seal_no_change ON hitl_seal",
    "DROP FUNCTION hitl_append_only()",
]
SQLITE = [
    """
    CREATE TRIGGER hitl_decision_no_delete BEFORE DELETE ON hitl_decision
    BEGIN SELECT RAISE(ABORT, 'hitl_decision is append-only'); END
    """,
    f"""
    CREATE TRIGGER hitl_decision_no_update BEFORE UPDATE OF {SAYS} ON hitl_decision
    BEGIN SELECT RAISE(ABORT, 'hitl_decision is append-only'); END
    """,
    """
    CREATE TRIGGER hitl_decision_one_seal BEFORE UPDATE OF seal_id ON hitl_decision
    WHEN OLD.seal_id IS NOT NULL
    BEGIN SELECT RAISE(ABORT, 'hitl_decision is append-only'); END
    """,
    """
    CREATE TRIGGER hitl_seal_no_delete BEFORE DELETE ON hitl_seal
    BEGIN SELECT RAISE(ABORT, 'hitl_seal is append-only'); END
    """,
    """
    CREATE TRIGGER hitl_seal_no_update BEFORE UPDATE ON hitl_seal
    BEGIN SELECT RAISE(ABORT, 'hitl_seal is append-only'); END
    """,
]
SQLITE_BACK = [
    "DROP TRIGGER hitl_decision_no_delete",
    "DROP TRIGGER hitl_decision_no_update",
    "DROP TRIGGER hitl_decision_one_seal",
    "DROP TRIGGER hitl_seal_no_delete",
    "DROP TRIGGER hitl_seal_no_update",
]


def _run(schema_editor, statements):
    for sql in statements.get(schema_editor.connection.vendor, ()):
        schema_editor.execute(sql, params=None)


def guard(apps, schema_editor):
    _run(schema_editor, {"postgresql": POSTGRESQL, "sqlite": SQLITE})


def lift(apps, schema_editor):
    _run(schema_editor, {"postgresql": POSTGRESQL_BACK, "sqlite": SQLITE_BACK})


class Migration(migrations.Migration):
    dependencies = [("hitl", "0001_initial")]

    operations = [migrations.RunPython(guard, lift)]
