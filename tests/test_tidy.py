"""What no linter checks: sizes, names, words, titles. Reads the tracked files; changes nothing."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LINES_MAX = 400
LINES_MAX_OF = {"models.py": 500}
TEST_LINES_MAX = 600
FUNCTION_LINES_MAX = 60

# A module called so has no subject, and everything ends up in it.
NAMELESS = {"util", "utils", "helper", "helpers", "service", "services", "common", "misc", "base"}

# Each pattern is written so that it does not match its own source.
FORBIDDEN_WORDS = {
    r"(?<![\w./-])/(work|root|home/\w+)/": "a path of somebody's machine",
    r"py[p]i\.org|pythonhoste[d]|registry\.npm[j]s": "the address of a package index",
    r"(?<![\w-])share[d]/": "a folder outside of the repository",
}
TEXT_SUFFIXES = {
    "", ".py", ".md", ".toml", ".yml", ".yaml", ".html", ".txt", ".css", ".js", ".lock", ".json",
    ".example", ".svg",
}  # fmt: skip


def tracked() -> list[Path]:
    """Return the tracked files that exist; without Git, as in an unpacked archive, nothing."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a Git checkout")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def python_files() -> list[Path]:
    """Return our code: no migrations, and no peers, which are written as their users would."""
    return [
        path
        for path in tracked()
        if path.suffix == ".py" and not {"migrations", "peers"} & set(path.parts)
    ]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def prose(markdown: str) -> Iterator[str]:
    """Yield the lines outside of code blocks."""
    in_code = False
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield line


def test_no_file_is_too_long() -> None:
    too_long = {}
    for path in python_files():
        limit = LINES_MAX_OF.get(path.name, LINES_MAX)
        if path.is_relative_to(ROOT / "tests"):
            limit = TEST_LINES_MAX
        if (lines := len(text_of(path).splitlines())) > limit:
            too_long[shown(path)] = f"{lines} lines, limit {limit}: a noun may be missing"
    assert not too_long


def test_no_function_is_too_long() -> None:
    too_long = {}
    for path in python_files():
        for function in functions(ast.parse(text_of(path))):
            assert function.end_lineno is not None
            lines = function.end_lineno - function.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                too_long[f"{shown(path)}:{function.lineno} {function.name}"] = lines
    assert not too_long


def test_every_module_says_what_it_is() -> None:
    silent = []
    for path in python_files():
        tree = ast.parse(text_of(path))
        if tree.body and not ast.get_docstring(tree):
            silent.append(shown(path))
    assert not silent


def test_every_module_has_a_subject() -> None:
    nameless = [shown(path) for path in python_files() if {path.stem, path.parent.name} & NAMELESS]
    assert not nameless


def test_no_file_speaks_of_one_machine_or_one_index() -> None:
    found = []
    for path in tracked():
        if path.suffix not in TEXT_SUFFIXES:
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            for pattern, meaning in FORBIDDEN_WORDS.items():
                if re.search(pattern, line):
                    found.append(f"{shown(path)}:{number}: {meaning}")
    assert not found


def test_lock_files_name_no_address_and_check_every_package() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        lock = text_of(ROOT / name)
        assert "://" not in lock
        assert "--index-url" not in lock
        # A logical line per package: each continues into its hashes.
        packages = [line for line in lock.splitlines() if re.match(r"[a-z0-9]", line)]
        assert packages
        assert all("==" in line and line.endswith("\\") for line in packages)


def test_every_markdown_page_has_one_title() -> None:
    titles = {
        shown(path): count
        for path in tracked()
        if path.suffix == ".md"
        and (count := sum(line.startswith("# ") for line in prose(text_of(path)))) != 1
    }
    assert not titles
