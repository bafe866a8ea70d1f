"""Real processes under a seeded rain of faults: `python -m tests.chaos`, or `make chaos SEED=1`."""
