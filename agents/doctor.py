"""What agents add to `manage.py hitl doctor`: runs that no worker takes, models, guardrails.

Reads only.
"""

from datetime import timedelta

from agents import agent, conf
from agents.guardrails import rulebook
from agents.models import GuardrailRule, Run
from agents.states import RunStatus
from hitl import clock, doctor, moments

GRACE = timedelta(minutes=1)
PATIENCE = timedelta(minutes=10)
"""Beyond this a queue is no busy moment any more."""
SHOWN_MAX = 5


@doctor.check("queued runs", needs=("database",))
def queued_runs() -> doctor.Verdict:
    """A run that waits for a worker for longer than a minute is a backlog."""
    now = clock.now()
    late = Run.objects.filter(status=RunStatus.QUEUED, queued_at__lte=now - GRACE)
    oldest = late.order_by("queued_at").values_list("queued_at", flat=True).first()
    if oldest is None:
        return doctor.ok("No run has waited for a worker for over a minute.")
    waited = now - oldest
    judge = doctor.fail if waited > PATIENCE else doctor.warn
    return judge(
        f"Runs that have waited for a worker for over a minute: {late.count()}, the longest for "
        f"{moments.span(waited)}. Start more workers, or look at why they do not take them."
    )


@doctor.check("lapsed leases", needs=("database",))
def lapsed_leases() -> doctor.Verdict:
    """A run whose worker died is taken over within seconds, unless nobody is there to do it."""
    lapsed = Run.objects.filter(status=RunStatus.RUNNING, lease_until__lte=clock.now() - GRACE)
    if count := lapsed.count():
        return doctor.fail(
            f"Runs whose worker fell silent over a minute ago, and which no other has taken: "
            f"{count}. Look at the workers and at beat; `manage.py hitl sweep` sends them again."
        )
    return doctor.ok("No run has lost its worker.")


@doctor.check("models")
def models() -> doctor.Verdict:
    """An agent without a model fails each of its runs."""
    if conf.default_model() is not None:
        return doctor.ok("Every agent has a model, its own or the default one.")
    without = [one.name for one in agent.every() if one.model is None]
    if not without:
        return doctor.ok("Every agent names a model.")
    names = ", ".join(without[:SHOWN_MAX]) + (", …" if len(without) > SHOWN_MAX else "")
    return doctor.warn(
        f'No model is named by {names}, so their runs fail. Set AGENTS["DEFAULT_MODEL"] or '
        f"write model= at the agent."
    )


@doctor.check("guardrails", needs=("database",))
def guardrails() -> doctor.Verdict:
    """A rule whose check has left the code counts as broken by everything it looks at."""
    found = list(GuardrailRule.objects.filter(enabled=True))
    useless = [f"{row.name} ({problem})" for row in found if (problem := rulebook.problem(row))]
    if not useless:
        return doctor.ok(f"Guardrails that are switched on: {len(found)}; each can be checked.")
    names = "; ".join(useless[:SHOWN_MAX]) + ("; …" if len(useless) > SHOWN_MAX else "")
    return doctor.warn(
        f"Guardrails that cannot be checked, so that everything breaks them: {names}. Mend or "
        f"switch them off in the admin."
    )
