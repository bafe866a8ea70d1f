"""`python -m examples.support_desk.check`: checks the demo in the directory that VAR_DIR names."""

import os
import sys

import django


def main() -> int:
    """Set Django up for that directory and tell the story; returns 0, or 1 when anything is off."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from examples.support_desk.check import chapters

    return chapters.tell()


if __name__ == "__main__":
    sys.exit(main())
