"""How a program asks the farm. Every call is bounded in time."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

SECONDS_MAX = 10


class FarmError(Exception):
    """The farm could not be reached, or did not take it."""


class Client:
    """Asks the farm at this address."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url).netloc

    def submit(self, scene: str, *, notify: str, key: str) -> int:
        """Begin a job and return its number; the same key again begins no second one."""
        asked = {"scene": scene, "notify": notify, "key": key}
        return int(self._ask("POST", "/jobs", asked)["job_id"])

    def job(self, job_id: int) -> dict[str, Any]:
        """Return how a job stands."""
        return self._ask("GET", f"/jobs/{job_id}")

    def finish(self, job_id: int) -> None:
        """Let a job be done at once."""
        self._ask("POST", f"/jobs/{job_id}/finish")

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        if not self._place:
            raise FarmError("There is no render farm: RENDER_FARM_URL is not set.")
        connection = http.client.HTTPConnection(self._place, timeout=SECONDS_MAX)
        try:
            connection.request(method, path, json.dumps(body))
            response = connection.getresponse()
            said: dict[str, Any] = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise FarmError(f"The render farm cannot be reached: {error}") from error
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise FarmError(f"The render farm says: {said.get('error', response.status)}")
        return said
