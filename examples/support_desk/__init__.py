"""A small shop and its support desk: the example that the demo and the tutorial use."""
