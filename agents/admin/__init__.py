"""The screens of agents in the Django admin: threads, workflow runs, triggers, guardrails.

All of them read rows; whatever they do goes through the verbs. Django imports this once per site.
"""

from agents.admin import (  # noqa: F401  (each registers itself)
    deliveries,
    guardrails,
    runs,
    threads,
    triggers,
)
