"""The database itself refuses to change or remove what the trail of the guardrails says.

As for the audit trail of requests, whose function for PostgreSQL this uses. To generate 0001 anew,
move this file aside and back.
"""

from django.db import migrations

POSTGRESQL = [
    """
    CREATE TRIGGER agents_guardrailchange_no_change
    BEFORE UPDATE OR DELETE ON agents_guardrailchange
    FOR EACH ROW EXECUTE FUNCTION hitl_append_only()
    """,
]
SQLITE = [
    f"""
    CREATE TRIGGER agents_guardrailchange_no_{verb} BEFORE {verb} ON agents_guardrailchange
    BEGIN SELECT RAISE(ABORT, 'agents_guardrailchange is append-only'); END
    """
    for verb in ("update", "delete")
]
POSTGRESQL_BACK = ["DROP TRIGGER agents_guardrailchange_no_change ON agents_guardrailchange"]
SQLITE_BACK = [
    "DROP TRIGGER agents_guardrailchange_no_update",
    "DROP TRIGGER agents_guardrailchange_no_delete",
]


def _run(schema_editor, statements):
    for sql in statements.get(schema_editor.connection.vendor, ()):
        schema_editor.execute(sql, params=None)


def guard(apps, schema_editor):
    _run(schema_editor, {"postgresql": POSTGRESQL, "sqlite": SQLITE})


def lift(apps, schema_editor):
    _run(schema_editor, {"postgresql": POSTGRESQL_BACK, "sqlite": SQLITE_BACK})


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial"), ("hitl", "0002_audit_append_only")]

    operations = [migrations.RunPython(guard, lift)]
