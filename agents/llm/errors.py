"""How a model call can fail. Pure.

The class says what to do next: wait and ask again, or give the run up. Messages reach screens and
logs, so they never hold a key, a header or the text of a request.
"""

from datetime import timedelta
from typing import ClassVar

from hitl.errors import HitlError


class ModelError(HitlError):
    """The model could not be asked."""

    code = "model_error"
    transient: ClassVar[bool] = False

    def __init__(self, message: str = "", *, retry_after: timedelta | None = None) -> None:
        """`retry_after` is the wait the provider asked for, bounded, or None."""
        super().__init__(message)
        self.retry_after = retry_after


class ModelUnavailable(ModelError):
    """The model could not be reached just now; the same request may succeed later."""

    code = "model_unavailable"
    transient: ClassVar[bool] = True


class ModelRefused(ModelError):
    """The provider refuses this request and will again; change the request or the settings."""

    code = "model_refused"


class RequestCancelled(HitlError):
    """The model call was cancelled because the run was stopped."""

    code = "request_cancelled"


class UnpairedCalls(HitlError):
    """The history holds a call without its one result, so no provider would take it."""

    code = "unpaired_calls"
