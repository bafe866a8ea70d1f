"""A Django app with the agents that the chaos runs drive."""
