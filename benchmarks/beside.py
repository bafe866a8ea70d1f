"""Runs parts of scenario P over Sayso and its peers in turn."""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import results
from benchmarks.peers import measuring
from benchmarks.results import say

HERE = Path(__file__).resolve().parent / "peers"
PEERS = {
    "floor": ("limits", "peer_floor.py", ""),
    "celery": ("celery", "peer_celery.py", ""),
    "sayso": ("", "peer_sayso.py", "agent"),
    "sayso-workflow": ("", "peer_sayso.py", "workflow"),
    "procrastinate": ("procrastinate", "peer_procrastinate.py", ""),
    "langgraph": ("langgraph", "peer_langgraph.py", "async"),
    "pydantic_ai": ("pydantic", "peer_pydantic_ai.py", ""),
    "dbos": ("dbos", "peer_dbos.py", "async"),
    "absurd": ("absurd", "peer_absurd.py", ""),
}
NAMES = {
    "floor": "floor (SQL by hand)",
    "celery": "Celery by hand",
    "sayso": "**Sayso**, an agent",
    "sayso-workflow": "**Sayso**, a workflow",
    "procrastinate": "Procrastinate",
    "langgraph": "LangGraph",
    "pydantic_ai": "Pydantic AI",
    "dbos": "DBOS",
    "absurd": "Absurd",
}
SECONDS_MAX = 900
Rounds = dict[str, list[dict[str, Any]]]


def options(about: str | None, peers: list[str]) -> argparse.ArgumentParser:
    """Return a parser with what every such command takes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-n", type=int, default=1000, help="runs at once")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=peers)
    return parser


def play(args: argparse.Namespace, plays: dict[str, tuple[str, list[str]]]) -> dict[str, Rounds]:
    """Play each of `plays`, name to part and further options, in interleaved rounds."""
    found: dict[str, Rounds] = {name: defaultdict(list) for name in plays}
    for number in range(args.rounds):
        for peer in args.peers:
            for name, (part, more) in plays.items():
                say(f"round {number + 1} of {args.rounds}: {name}, {peer}")
                line = _one(peer, part, more)
                if part in line:
                    others = line["others_cpu_pct"][part[0]]
                    found[name][peer].append({**line[part], "others_cpu_pct": others})
                else:
                    say(f"{peer}: {line}")
    return found


def _one(peer: str, part: str, more: list[str]) -> dict[str, Any]:
    """Play one part over one peer; its line of JSON, or what went wrong."""
    venv, script, mode = PEERS[peer]
    home = Path(os.environ.get("PEERS_VENVS", "venvs"))
    python = str(home / venv / "bin" / "python") if venv else sys.executable
    command = [python, script, "--parts", part, *more, *(["--mode", mode] if mode else [])]
    env = {**os.environ, "PEERS_LOGS": str(results.HOME.parent.parent / "var" / "bench-logs")}
    try:
        done = subprocess.run(
            command, cwd=HERE, env=env, capture_output=True, text=True, timeout=SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return {"error": f"took longer than {SECONDS_MAX} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    return {"error": done.stderr[-2000:]}


def median_of(rounds: list[dict[str, Any]], *path: str) -> float | None:
    """Return the median of a figure over the rounds; None where no round has it."""
    values = []
    for each in rounds:
        for key in path:
            each = each.get(key, {}) if isinstance(each, dict) else {}
        if isinstance(each, int | float):
            values.append(each)
    return results.median(values) if values else None


def sum_of(rounds: list[dict[str, Any]], *path: str) -> int:
    """Return the sum of a count over the rounds."""
    return sum(int(median_of([each], *path) or 0) for each in rounds)


def keep(name: str, args: argparse.Namespace, found: dict[str, Rounds], markdown: str) -> str:
    """Leave the rounds and the table in `results/`; returns on what it ran."""
    with psycopg.connect(measuring.dsn("postgres")) as connection:
        [server] = connection.execute("SELECT version()").fetchone() or ["unknown"]
    whole = {"machine": results.machine(server), "options": vars(args), "rounds": found}
    results.write(name, whole, markdown)
    return results.ran_on(whole["machine"])


def load_of(found: dict[str, Rounds]) -> str:
    """Say how much of the machine other processes used meanwhile."""
    shares = [
        each["others_cpu_pct"] for by in found.values() for one in by.values() for each in one
    ]
    return (
        f"Other processes used {min(shares):.0f}–{max(shares):.0f} % of the machine meanwhile "
        f"(median {results.median(shares):.0f} %).\n"
    )
