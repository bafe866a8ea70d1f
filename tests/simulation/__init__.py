"""The whole platform, crashed on purpose."""
