"""Examples that run: the support desk behind the demo, the tutorial and the acceptance tests."""
