"""Guardrails: rules that an operator writes on a screen and that every turn is judged by.

`subjects` says what is judged and `judging` how, both pure, with one module per check: `words`,
`patterns`, `personal`, `thresholds`, `custom`. `rulebook` holds the rows. What follows from a
verdict is the work of `agents/guarding.py`.
"""

from agents.guardrails.custom import guardrail_check
from agents.guardrails.subjects import Subject

__all__ = ["Subject", "guardrail_check"]
