"""Tests of Sayso; `tests/tiers.py` says which of them need what."""
