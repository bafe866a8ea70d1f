"""The body of a request: read within a bound, and as JSON that can be stored."""

from django.http import HttpRequest

from hitl import values
from hitl.errors import BadJson, TooLarge


def read(request: HttpRequest, *, size_max: int) -> bytes:
    """Return the body as it came. Raises TooLarge over `size_max` bytes, having read no more."""
    announced = request.headers.get("Content-Length") or "0"
    if announced.isascii() and announced.isdigit() and int(announced[:18]) > size_max:
        raise TooLarge(f"The body is over {size_max} bytes.")
    body: bytes = request.read(size_max + 1)
    if len(body) > size_max:
        raise TooLarge(f"The body is over {size_max} bytes.")
    return body


def parse(body: bytes, *, size_max: int) -> values.JSON:
    """Return the JSON of a body, cleaned; an empty one is null.

    Raises BadJson, and TooLarge for what takes over `size_max` bytes when it is stored, in ASCII.
    """
    if not body.strip():
        return None
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadJson("The body is not UTF-8.") from None
    parsed = values.parse(text, size_max=max(values.BYTES, size_max))
    return values.clean(parsed, size_max=size_max)
