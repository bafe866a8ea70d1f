"""An office that asks before it buys: an approval in front of plain code, without any agent."""
