"""Checks of the callbacks: is each told in time, and has none been given up."""

from hitl import clock
from hitl.doctor.examination import Verdict, check, fail, ok, warn
from hitl.doctor.sweeping import GRACE
from hitl.models import CallbackDelivery
from hitl.states import CallbackStatus


@check("callbacks", needs=("database",))
def callbacks() -> Verdict:
    """A decision that nobody is told leaves whoever asked waiting."""
    owed = CallbackDelivery.objects.filter(
        status=CallbackStatus.OWED, next_attempt_at__lte=clock.now() - GRACE
    )
    # One that is being made, or whose worker died a moment ago, has a lease that still runs.
    late = owed.exclude(lease_until__gt=clock.now()).count()
    if late:
        return fail(
            f"Callbacks due for over a minute: {late}. Look at beat, and at the workers of the "
            f"queue that takes hitl.deliver."
        )
    dead = CallbackDelivery.objects.filter(status=CallbackStatus.DEAD).count()
    if dead:
        return warn(
            f"Callbacks given up: {dead}. `manage.py hitl callbacks` lists them with the reason, "
            f"`manage.py hitl resend` sends one again."
        )
    return ok("Every callback that is due has been sent.")
