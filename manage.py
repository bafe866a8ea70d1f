#!/usr/bin/env python
"""Django's command line for the Sayso project."""

import os
import sys


def main() -> None:
    """Run a management command; `demo` alone needs no environment at all."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    if sys.argv[1:2] == ["demo"]:
        os.environ.setdefault("DEMO", "1")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
