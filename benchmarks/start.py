"""How long the web process takes to start, and what it loads.

    python -m benchmarks.start --rounds 11

Starts it as a server does, up to where it could answer: the ASGI application and every address. A
bare Django with its admin is started in turn for comparison. CPU time hardly depends on what else
the machine does.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.results import median, say

ROOT = Path(__file__).resolve().parent.parent
GOAL_S = 1.5
LIBRARIES = ("pydantic_ai", "openai", "anthropic")
REPORT = """
import json, resource, sys
used = resource.getrusage(resource.RUSAGE_SELF)
loaded = [name for name in %r if name in sys.modules]
print(json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "rss_mb": used.ru_maxrss / 1024,
                  "modules": len(sys.modules), "libraries": loaded}))
"""
SAYSO = """
import os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
import project.asgi
from django.urls import get_resolver
get_resolver().url_patterns
"""
DJANGO = """
from django.conf import settings
settings.configure(
    SECRET_KEY="x", ROOT_URLCONF="bare", USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "x"}},
    INSTALLED_APPS=["django.contrib." + name for name in
                    ("admin", "auth", "contenttypes", "sessions", "messages", "staticfiles")],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
)
import sys, types
from django.core.asgi import get_asgi_application
get_asgi_application()
from django.contrib import admin
from django.urls import path
bare = sys.modules["bare"] = types.ModuleType("bare")
bare.urlpatterns = [path("admin/", admin.site.urls)]
from django.urls import get_resolver
get_resolver().url_patterns
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=11)
    args = options.parse_args()
    found: dict[str, list[dict[str, Any]]] = {"bare Django with its admin": [], "**Sayso**": []}
    for number in range(args.rounds):
        say(f"round {number + 1} of {args.rounds}")
        for (name, rounds), code in zip(found.items(), (DJANGO, SAYSO), strict=True):
            rounds.append(start(code))
    rows = [[name, *_figures(rounds)] for name, rounds in found.items()]
    head = ["web process, medians", "wall s", "CPU s", "memory MB", "modules", "model libraries"]
    whole = {"machine": results.machine("–"), "options": vars(args), "rounds": found}
    results.write("start", whole, results.table(head, rows))
    slow = median([one["cpu_s"] for one in found["**Sayso**"]]) > GOAL_S
    return int(slow or any(one["libraries"] for one in found["**Sayso**"]))


def start(code: str) -> dict[str, Any]:
    """Start one process and return what it reports."""
    env = {**os.environ, "SECRET_KEY": "benchmark"}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code + REPORT % (LIBRARIES,)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - began
    report = json.loads(done.stdout.splitlines()[-1])
    return {"wall_s": wall, "warnings": done.stderr.strip(), **report}


def _figures(rounds: list[dict[str, Any]]) -> list[str]:
    figures = [f"{median([one[key] for one in rounds]):.2f}" for key in ("wall_s", "cpu_s")]
    figures += [f"{median([one[key] for one in rounds]):.0f}" for key in ("rss_mb", "modules")]
    libraries = {name for one in rounds for name in one["libraries"]}
    return [*figures, ", ".join(sorted(libraries)) or "none"]


if __name__ == "__main__":
    sys.exit(main())
