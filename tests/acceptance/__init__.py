"""Real processes: workers, brokers, pages."""
