"""Checks of the sweep: does it come, and does it leave nothing undone."""

from datetime import timedelta

from hitl import clock, conf, durations, moments, sweeping
from hitl.doctor.examination import Verdict, check, fail, ok, warn
from hitl.models import Decision, Park, Pulse

PERIODS_MAX = 3
GRACE = timedelta(minutes=1)
"""Whatever is owed for longer than this, somebody should have done."""
SEALED_WITHIN = timedelta(minutes=10)


@check("sweep", needs=("database",))
def sweep() -> Verdict:
    """The sweep settles what is due and repeats lost messages: without it, things stay undone."""
    pulse = Pulse.objects.filter(name=sweeping.PULSE).first()
    if pulse is None:
        return warn(
            "No sweep has ever run: beat or the worker is not running. Start both, and look "
            "whether a worker takes the queue of the hitl tasks."
        )
    age = clock.now() - pulse.at
    period = durations.spell(conf.sweep_every())
    ago = moments.span(age)
    if age > PERIODS_MAX * conf.sweep_every():
        return fail(
            f"The last sweep ran {ago} ago; one is due every {period}. "
            f"Restart beat, look at the workers; `manage.py hitl sweep` helps meanwhile."
        )
    return ok(f"The last sweep ran {ago} ago.")


@check("overdue requests", needs=("database",))
def overdue() -> Verdict:
    """A request past its deadline that nobody has closed keeps its run waiting."""
    count = Park.objects.due(clock.now() - GRACE).count()
    if count:
        return fail(
            f"Requests open although their deadline passed over a minute ago: {count}. Look at "
            f"beat and the workers; `manage.py hitl sweep` closes them now."
        )
    return ok("No request is open past its deadline.")


@check("audit trail", needs=("database",))
def trail() -> Verdict:
    """Rows of the trail that no seal holds are protected by their own hash alone."""
    loose = Decision.objects.filter(seal__isnull=True, at__lte=clock.now() - SEALED_WITHIN)
    if loose[:1].exists():
        return warn(
            f"Audit rows older than {durations.spell(SEALED_WITHIN)} are not sealed. Look at the "
            f"sweep; `manage.py hitl sweep` seals them now."
        )
    return ok("The sweep keeps up with sealing the audit trail.")
