"""From what an agent names as its model to something that can be asked."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agents import conf
from agents.llm import scripted
from agents.llm.errors import ModelError
from agents.llm.messages import Reply, Request

if TYPE_CHECKING:
    from agents.llm.library import PydanticAIModel

logger = logging.getLogger(__name__)


@runtime_checkable
class Model(Protocol):
    """Anything that answers one request."""

    def request(self, request: Request, *, cancelled: Callable[[], bool]) -> Reply:
        """Return the model's reply, having proved that the history pairs calls and results.

        `cancelled` may be asked at any time and any number of times; once it is true the call is
        given up with `RequestCancelled`. Raises `ModelUnavailable` where asking again later may
        help, `ModelRefused` where it will not, and `UnpairedCalls` before anything is sent.
        """


def resolve(model: str | Model) -> Model:
    """Return the model for a model string, or a model object as it is.

    `scripted:<name>` is a scripted model of this process (`ModelRefused` when there is none).
    Any other string loads the model library, about a second once per process, and is judged when it
    is first asked.
    """
    if not isinstance(model, str):
        return model
    if model.startswith(scripted.PREFIX):
        return scripted.named(model.removeprefix(scripted.PREFIX))
    return _of_library(model)


def preload(model: str | Model) -> None:
    """Load now what the first request would load, which takes seconds with some SDKs.

    Meant for a worker's parent process: its children then share those modules and start quickly. A
    model that cannot be loaded is logged and left for its first request to report.
    """
    if isinstance(model, str) and not model.startswith(scripted.PREFIX):
        try:
            _of_library(model).load()
        except ModelError as error:
            logger.warning("The model %s cannot be loaded: %s", model, error)


def _of_library(model: str) -> "PydanticAIModel":
    # Imported here so that a process that asks no model does not pay for the library.
    from agents.llm.library import PydanticAIModel

    return PydanticAIModel(model, timeout=conf.duration("MODEL_TIMEOUT"))
