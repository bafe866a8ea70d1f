"""The story of the check: yes, no, two at once, the plug pulled, nobody answers, Ctrl-C.

The demo runs as a child process on the directory of `VAR_DIR`. This process reads the rows and
presses the demo's buttons; it writes nothing but two wishes that no worker has seen.
"""

import os
import stat
from http import HTTPStatus
from time import monotonic

from django.conf import settings

import hitl
from agents import threads
from agents.states import RunStatus
from examples.purchasing import purchases
from examples.purchasing.models import Purchase
from examples.support_desk import customer, workflows
from examples.support_desk.check import facts
from examples.support_desk.check.server import STOP_SECONDS_MAX, Server
from examples.support_desk.check.story import Story
from examples.support_desk.check.visitor import Visitor
from examples.support_desk.demo import account, opening
from examples.support_desk.models import Mail, Order
from hitl.models import Verb
from hitl.states import SENTENCES, Code, ParkStatus

PRINTED_LINES_MAX = 40
SHORT_TTL = "4s"
STUDIO_PATH = ("studio", "mailer")
STUDIO_MAIL = "bela@example.com"

TO_APPROVE, ONE_MAIL, TWO_REFUNDS, TO_DENY, *_ = opening.WISHES
LEFT_QUEUED = "Refund order 19: the coat is too small."
LEFT_ALONE = "Write to grace@example.com that her coat is back in stock."


def tell() -> int:
    """Go through all chapters; returns 0, or 1 at the first thing that is off, with the output."""
    story = Story()
    check = Check(story)
    try:
        check.fresh_start()
        check.job_and_subagent()
        check.yes()
        check.no()
        check.two_at_once()
        check.no_agent()
        check.workflow()
        check.event()
        check.plug_pulled()
        check.nobody_answers()
        check.stopped()
    except Exception as error:
        story.end(f"The demo is off. {type(error).__name__}: {error}")
        story.quote("The demo printed:", check.printed()[-PRINTED_LINES_MAX:])
        return 1
    finally:
        check.clean_up()
    story.end("The demo works.")
    return 0


class Check:
    """The chapters, and the demo and the visitor that they share."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.servers: list[Server] = []
        self.visitor: Visitor

    def fresh_start(self) -> None:
        story, server = self.story, self.start()
        self.visitor = visitor = Visitor(server)
        story.chapter("A fresh start")
        story.check(f"the demo serves at {server.url}", server.is_alive)
        mode = stat.S_IMODE((settings.VAR / account.PASSWORD_FILE).stat().st_mode)
        story.check("the password is kept for its owner alone", mode == 0o600)
        wrong = visitor.log_in(server.username, server.password[::-1])
        still_asked = any("password" in form.fields for form in wrong.forms)
        story.check("a wrong password opens nothing", still_asked)
        inbox = visitor.log_in(server.username, server.password)
        story.check("what the demo printed opens the inbox", inbox.url.endswith(server.inbox))
        waiting = list(facts.open_deadlines())
        shown = [visitor.is_shown(inbox, request_id) for request_id in waiting]
        story.check(f"it shows the {len(waiting)} requests that wait", waiting and all(shown))
        story.check("a refund below 100 € was paid without asking", facts.refunds(12) == 1)
        story.check("a colleague's no was heeded: no refund", facts.refunds(18) == 0)

    def job_and_subagent(self) -> None:
        story, visitor, wish = self.story, self.visitor, opening.STUDIO_WISH
        story.chapter(f"A job elsewhere, and a subagent: {wish}")
        job = story.wait("the picture comes by the job's own address", facts.finished_job(wish))
        by_itself = job is not None and job.channel == "webhook"
        story.check("nobody had to do anything for it", by_itself)
        [request] = facts.pending(wish)
        story.check("the thread still waits: its subagent asks", request.path == STUDIO_PATH)
        page = visitor.open(request)
        story.check("the page says who asks, and how deep", "studio › mailer" in page.text)
        story.check("no mail has left", facts.mails(STUDIO_MAIL) == 0)
        visitor.press(page, "Approve")
        story.wait("approved: the answer unwinds, the thread completes", facts.completes(wish))
        story.check("the mail has left, once", facts.mails(STUDIO_MAIL) == 1)
        said = facts.last_words(wish)
        story.check("the studio tells where the picture is", "/pictures/1.svg" in said)

    def yes(self) -> None:
        story, visitor = self.story, self.visitor
        story.chapter(f"Yes: {TO_APPROVE}")
        [request] = facts.pending(TO_APPROVE)
        page, other_tab = visitor.open(request), visitor.open(request)
        story.check("its page shows the arguments", '"249.00"' in page.text)
        story.check("nothing has been paid yet", facts.refunds(17) == 0)
        visitor.press(page, "Approve")
        story.wait("approved in the admin: the thread completes", facts.completes(TO_APPROVE))
        story.check("the refund was paid, once", facts.refunds(17) == 1)
        trail = facts.ending(TO_APPROVE)
        who = (trail.verb, trail.actor, trail.channel)
        story.check("the trail says who, and where", who == (Verb.APPROVED, "admin", "admin"))
        late, too_late = visitor.press(other_tab, "Approve"), SENTENCES[Code.ALREADY_ANSWERED]
        story.check(f"a second yes, from another tab: “{too_late}”", too_late in late.text)
        story.check("and still one refund", facts.refunds(17) == 1)

    def no(self) -> None:
        story, visitor = self.story, self.visitor
        story.chapter(f"No: {TO_DENY}")
        [request] = facts.pending(TO_DENY)
        visitor.press(visitor.open(request), "Deny", reason="It is being packed.")
        story.wait("denied in the admin: the thread completes", facts.completes(TO_DENY))
        story.check("the order stands", Order.objects.get(id=15).status == Order.Status.PAID)
        said = facts.last_words(TO_DENY)
        story.check("the customer is told so, and why", "not done" in said and "packed" in said)

    def two_at_once(self) -> None:
        story, visitor = self.story, self.visitor
        story.chapter(f"Two at once: {TWO_REFUNDS}")
        one, other = facts.pending(TWO_REFUNDS)
        visitor.press(visitor.open(other), "Approve")
        waits = facts.thread(TWO_REFUNDS).status == RunStatus.WAITING_FOR_INPUT
        nothing = facts.refunds(13) == facts.refunds(16) == 0
        story.check("one yes, one open: it waits, and nothing is paid", waits and nothing)
        visitor.press(visitor.open(one), "Approve")
        asked = story.wait(
            "both answered: the desk pays, and asks before it writes",
            lambda: [more for more in facts.pending(TWO_REFUNDS) if more.tool_name == "send_email"],
        )
        story.check("each was paid once", facts.refunds(13) == facts.refunds(16) == 1)
        sent = Mail.objects.exclude(to__in=[STUDIO_MAIL, opening.ASKED]).exists()
        story.check("no mail has left", len(asked) == 2 and not sent)

    def no_agent(self) -> None:
        story, visitor = self.story, self.visitor
        story.chapter(f"No agent: plain code asks to buy {opening.PURCHASE}")
        page = visitor.open(facts.standalone(purchases.TOPIC))
        story.check("its page shows the payload", "189.00" in page.text)
        story.check("nothing has been ordered yet", facts.purchase().status == "asked")
        visitor.press(page, "Approve")
        story.wait(
            "approved: a signed callback tells the office, which orders",
            lambda: facts.purchase().status == Purchase.Status.ORDERED,
        )
        story.check("it names who approved", facts.purchase().note == "approved by admin")
        story.wait("the trail says that it was delivered, once", facts.is_told_once)

    def workflow(self) -> None:
        story, visitor, name = self.story, self.visitor, workflows.refund.name
        story.chapter("A workflow waits for a yes")
        [request] = hitl.pending(facts.run(name))
        page = visitor.open(request)
        shown = str(opening.WORKFLOW_REFUND) in page.text
        story.check("its request is in the same inbox", shown)
        paid = facts.refunds(opening.WORKFLOW_ORDER)
        story.check("nothing has been paid yet", paid == 0)
        visitor.press(page, "Approve")
        story.wait("approved: the workflow goes on to its end", facts.is_completed(name))
        story.check("the refund was paid, once", facts.refunds(opening.WORKFLOW_ORDER) == 1)

    def event(self) -> None:
        story, name = self.story, workflows.ask_customer.name
        story.chapter("A workflow waits for a customer's mail, which comes to a trigger")
        thread = story.wait("it waits for the mail", facts.waits_for_mail)
        event = {"id": "check-1", "mail_thread": thread, "text": "The blue one."}
        address = self.servers[-1].url
        refused = customer.post("mails", event, secret="not the secret", site=address)  # noqa: S106
        story.check("without the secret nothing is taken", refused == HTTPStatus.UNAUTHORIZED)
        taken = customer.post("mails", event, site=address)
        story.check("with it the event is taken", taken == HTTPStatus.ACCEPTED)
        again = customer.post("mails", event, site=address)
        story.check("sent again it is a duplicate", again == HTTPStatus.OK)
        story.wait("the workflow goes on with it", facts.is_completed(name))
        output = facts.run(name).output
        story.check("and knows what the customer wrote", "The blue one." in str(output))

    def plug_pulled(self) -> None:
        story, visitor = self.story, self.visitor
        story.chapter("The plug is pulled")
        [killed], deadlines = self.servers, facts.open_deadlines()
        for wish in (LEFT_QUEUED, LEFT_ALONE):
            threads.start("desk", wish)
        killed.kill()
        queued = facts.queued()
        story.check(f"killed: {len(deadlines)} requests open, {queued} runs queued", queued == 2)
        # From now on questions are open for a shorter time; those asked before keep theirs.
        server = self.start(HITL_TTL=SHORT_TTL)
        story.check("started again: the same password", server.password == killed.password)
        kept = deadlines.items() <= facts.open_deadlines().items()
        story.check("the same requests are open, with the same deadlines", kept)
        story.wait("what was queued goes on, and completes", facts.completes(LEFT_QUEUED))
        story.check("its refund was paid, once", facts.refunds(19) == 1)
        visitor.moves_to(server)
        [request] = facts.pending(ONE_MAIL)
        visitor.press(visitor.open(request), "Approve")
        story.wait("a request from before is approved: completed", facts.completes(ONE_MAIL))
        story.check("the mail has left, once", facts.mails("jonas@example.com") == 1)

    def nobody_answers(self) -> None:
        story = self.story
        story.chapter(f"Nobody answers: {LEFT_ALONE}")
        story.wait("the deadline passes: the thread completes", facts.completes(LEFT_ALONE))
        expiry = facts.ending(LEFT_ALONE)
        story.check("the request is timed_out", expiry.park.status == ParkStatus.TIMED_OUT)
        named = expiry.verb == Verb.EXPIRED and expiry.system
        story.check(f"the trail names the {expiry.actor}, and nobody's no", named)
        story.check("no mail has left", facts.mails("grace@example.com") == 0)

    def stopped(self) -> None:
        story, began, before = self.story, monotonic(), facts.open_deadlines()
        story.chapter("Ctrl-C")
        code = self.servers[-1].stop()
        took = monotonic() - began
        story.check(f"stopped in {took:.1f} s with exit code {code}", code == 0)
        story.check(f"that is under {STOP_SECONDS_MAX} s", took < STOP_SECONDS_MAX)
        story.check("what waits keeps waiting", before and facts.open_deadlines() == before)

    def start(self, **environment: str) -> Server:
        environment = {"RENDER_SECONDS": "1"} | environment
        self.servers.append(Server(dict(os.environ) | environment))
        return self.servers[-1]

    def printed(self) -> list[str]:
        return [line for server in self.servers for line in server.printed]

    def clean_up(self) -> None:
        for server in self.servers:
            server.kill()
