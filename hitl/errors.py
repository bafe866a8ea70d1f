"""The errors of hitl: one base, a stable code each, the docstring as the default message.

Pure. Outcomes that are to be expected (a late answer, a lost race) are values, not errors.
"""

import inspect
from typing import ClassVar


class HitlError(Exception):
    """The request could not be carried out; see the log for the reason."""

    code: ClassVar[str] = "hitl_error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or inspect.cleandoc(type(self).__doc__ or ""))


class NotJson(HitlError):
    """The value has no JSON form; return plain data, dataclasses or pydantic models instead."""

    code = "not_json"


class TooLarge(HitlError):
    """The value is larger than may be stored; shorten it, or store it elsewhere and pass its id."""

    code = "too_large"


class BadJson(HitlError):
    """The text is not a JSON object that can be accepted; write one plain JSON object."""

    code = "bad_json"


class BadDuration(HitlError):
    """The duration is unreadable or out of range; write "30s", "90m", "4h" or "2d"."""

    code = "invalid_duration"


class ApprovalNotFound(HitlError):
    """There is no standalone request of this id."""

    code = "approval_not_found"


class ApprovalInvalidRequest(HitlError):
    """The request is not one that can be opened, listed or read; the message says what is wrong."""

    code = "approval_invalid_request"


class ApprovalInvalidSignature(HitlError):
    """The callback is not signed by this project; refuse it with status 400."""

    code = "approval_invalid_signature"


class ApprovalStaleTimestamp(HitlError):
    """The callback was signed too long ago, or by a clock that is ahead; refuse it with 400."""

    code = "approval_stale_timestamp"


class ApprovalSigningKeyMissing(HitlError):
    """No key to sign with: set HITL["HMAC_SECRET"] to a long random text of your own."""

    code = "approval_signing_key_missing"


class ApprovalToolExecuteFailed(HitlError):
    """The function behind the tool raised an error."""

    code = "approval_tool_execute_failed"
