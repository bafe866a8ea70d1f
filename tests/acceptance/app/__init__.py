"""A Django app with agents for tests in real processes."""
