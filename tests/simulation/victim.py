"""A process that plays one scenario and may be killed at any point: SAYSO_FAULT says at which.

A command: `python -m tests.simulation.victim SCENARIO JOURNAL [ACT]`, on the database of
DATABASE_URL; with a number it plays that act alone.
"""

import sys
from pathlib import Path

import django

if __name__ == "__main__":
    django.setup()

    from tests.simulation.journal import Journal, enrol
    from tests.simulation.scenarios import Stage, named

    scenario = named(sys.argv[1])
    journal = Journal(Path(sys.argv[2]))
    enrol(journal)
    only = slice(None) if len(sys.argv) < 4 else slice(int(sys.argv[3]), int(sys.argv[3]) + 1)
    scenario.play(Stage(journal, scenario.message), only.start or 0, only.stop)
