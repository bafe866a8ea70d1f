"""The Django app that the benchmarks run: one agent that parks once, as scenario P asks."""
