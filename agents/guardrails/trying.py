"""Trying a rule: on a sample, or over what was recorded. Reads rows, writes none, lets nothing go.

What a rule finds in what was recorded is told by kinds and places alone, as everywhere (G4, G5).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from time import monotonic
from typing import Any

from agents import agent
from agents.arguments import InvalidArguments
from agents.guardrails.judging import Judgement, Rule, judge, redacted
from agents.guardrails.subjects import Action, Subject, Where
from agents.models import Run, Step, ToolCall
from agents.tools import Tool
from hitl import values
from hitl.errors import HitlError

RECORDED_MAX = 500
SECONDS_MAX = 10.0
EXAMPLES_MAX = 10


class BadSample(HitlError):
    """The sample cannot be judged."""

    code = "bad_sample"


@dataclass(frozen=True, slots=True)
class Tried:
    """What a rule says of a sample; `left` is what a redaction would leave of it."""

    action: str = ""
    kinds: tuple[str, ...] = ()
    left: Any = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a rule would have done: how much was judged, how much broke it, by kind, and where."""

    judged: int
    broken: int
    kinds: list[tuple[str, int]] = field(default_factory=list)
    examples: list[tuple[Run, tuple[str, ...]]] = field(default_factory=list)


def on_sample(rule: Rule, sample: str) -> Tried:
    """Return what the rule says of a text, or of the JSON of a call's arguments."""
    who = min(rule.agents, default="")
    if rule.where != Where.TOOL_CALL:
        subject = Subject(Where(rule.where), who, text=sample)
        return _tried(rule, subject, sample)
    arguments = values.parse_object(sample)
    name = min(rule.tools, default="")
    tool = _tool(name, rule.agents)
    if tool is not None:
        try:
            arguments = tool.validate(sample)
        except InvalidArguments as error:
            raise BadSample(f"{name} would not take these arguments. {error}") from error
    return _tried(rule, _call(who, name, arguments, tool), arguments)


def on_recorded(rule: Rule) -> Recorded:
    """Judge the newest of what the rule would have looked at: at most 500, and for ten seconds."""
    until = monotonic() + SECONDS_MAX
    judged, broken, kinds = 0, 0, Counter[str]()
    examples: list[tuple[Run, tuple[str, ...]]] = []
    for run, subject in _recorded(rule):
        if monotonic() > until:
            break
        judged += 1
        found = _verdict(rule, subject)
        if found.verdict is None:
            continue
        broken += 1
        kinds.update(found.verdict.kinds)
        if len(examples) < EXAMPLES_MAX:
            examples.append((run, found.verdict.kinds))
    return Recorded(judged, broken, kinds.most_common(), examples)


def _tried(rule: Rule, subject: Subject, sample: Any) -> Tried:
    verdict = _verdict(rule, subject).verdict
    if verdict is None:
        return Tried()
    left = redacted(rule, sample) if verdict.action == Action.REDACT else None
    return Tried(verdict.action, verdict.kinds, left)


def _verdict(rule: Rule, subject: Subject) -> Judgement:
    """Judge by this rule as if it counted, whether it does or not."""
    alone = replace(rule, shadow=False, agents=frozenset(), tools=frozenset())
    return judge([alone], subject)


def _recorded(rule: Rule) -> Iterator[tuple[Run, Subject]]:
    match rule.where:
        case Where.INPUT:
            runs = Run.objects.filter(thread__isnull=False).order_by("-id")
            if rule.agents:
                runs = runs.filter(target__in=rule.agents)
            for run in runs[:RECORDED_MAX]:
                yield run, Subject(Where.INPUT, run.target, text=run.input["message"])
        case Where.OUTPUT:
            steps = Step.objects.exclude(text="").select_related("run", "frame").order_by("-id")
            for step in steps.defer("raw")[:RECORDED_MAX]:
                who = step.frame.agent if step.frame is not None else step.run.target
                if not rule.agents or who in rule.agents:
                    yield step.run, Subject(Where.OUTPUT, who, text=step.text)
        case _:
            yield from _recorded_calls(rule)


def _recorded_calls(rule: Rule) -> Iterator[tuple[Run, Subject]]:
    calls = ToolCall.objects.exclude(digest="").select_related("run", "step__frame")
    if rule.tools:
        calls = calls.filter(tool_name__in=rule.tools)
    for call in calls.order_by("-id")[:RECORDED_MAX]:
        frame = call.step.frame
        who = frame.agent if frame is not None else call.run.target
        if not rule.agents or who in rule.agents:
            tool = _tool(call.tool_name, frozenset([who]))
            yield call.run, _call(who, call.tool_name, call.arguments, tool)


def _call(who: str, name: str, arguments: dict[str, Any], tool: Tool | None) -> Subject:
    """Return a call as it would be judged; of a tool that is gone with the numbers as written."""
    typed = _exact(arguments)
    if tool is not None:
        try:
            typed = tool.typed(arguments)
        except InvalidArguments:
            typed = {}
    return Subject(Where.TOOL_CALL, who, tool=name, arguments=arguments, typed=typed)


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _exact(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


def _tool(name: str, agents: frozenset[str]) -> Tool | None:
    """Return the tool of this name that one of these agents has; of any, when none is named."""
    for one in agent.every():
        if (not agents or one.name in agents) and (tool := one.tool(name)) is not None:
            return tool
    return None
