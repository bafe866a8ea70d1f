"""What a project uses to test its own approvals, without a network, a server or a broker."""

from urllib.parse import urlsplit

from django.test import Client

from hitl import conf
from hitl.callbacks import deliveries, posting
from hitl.callbacks.addresses import Destination
from hitl.callbacks.posting import Refusal


def deliver_callbacks() -> int:
    """Deliver the callbacks that are due now; returns how many were accepted.

    One to a path of this site goes straight to the view, in this process. Others are POSTed.
    """
    return sum(posting.deliver(one, send=_send) for one in deliveries.owing())


def _send(destination: Destination, body: bytes, signed: dict[str, str]) -> Refusal | None:
    """Hand a request for this site to Django itself."""
    if not destination.url.startswith(conf.site_url() + "/"):
        return posting.send_by_network(destination, body, signed)
    parts = urlsplit(destination.url)
    answer = Client(enforce_csrf_checks=True).post(
        parts._replace(scheme="", netloc="").geturl(),
        data=body,
        content_type=signed["content-type"],
        headers={name: value for name, value in signed.items() if name.startswith("webhook-")},
        secure=urlsplit(conf.base_url()).scheme == "https",
    )
    return posting.judge(answer.status_code, answer.headers.get("retry-after", ""))
