"""Writes docs/promises.md: each promise and the tests that carry its id. `--check` only compares.

Reads `promises.toml` and the tests' source, imports neither tests nor apps: it needs Python alone.
"""

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
TARGET = DOCS / "promises.md"

HEAD = """# Promises

What Sayso promises, and the tests that prove it. `make promises` writes this page from
[promises.toml](promises.toml) and the `promise` markers in `tests/`; a promise without a test is
marked "not yet".
"""

TestsById = dict[str, list[str]]
TestFunction = ast.FunctionDef | ast.AsyncFunctionDef


def ids_of(marker: ast.expr) -> Iterator[str]:
    """Yield the ids in a `pytest.mark.promise("A1", "A2")`, also within a list of marks."""
    if isinstance(marker, ast.List | ast.Tuple):
        for element in marker.elts:
            yield from ids_of(element)
    elif (
        isinstance(marker, ast.Call)
        and isinstance(marker.func, ast.Attribute)
        and marker.func.attr == "promise"
    ):
        for argument in marker.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise SystemExit(f"line {argument.lineno}: a promise marker takes plain ids only")
            yield argument.value


def own_ids(node: ast.Module | ast.ClassDef | TestFunction) -> set[str]:
    """Return the ids in a node's decorators and in its `pytestmark`."""
    found: set[str] = set()
    for decorator in getattr(node, "decorator_list", []):
        found.update(ids_of(decorator))
    if not isinstance(node, TestFunction):
        for statement in node.body:
            if isinstance(statement, ast.Assign) and any(
                isinstance(target, ast.Name | ast.Attribute)
                and ast.unparse(target).split(".")[-1] == "pytestmark"
                for target in statement.targets
            ):
                found.update(ids_of(statement.value))
    return found


def tests_in(
    node: ast.Module | ast.ClassDef, inherited: set[str]
) -> Iterator[tuple[str, set[str]]]:
    """Yield each test's name with the ids of its own marks and of what it stands in."""
    inherited = inherited | own_ids(node)
    named = False
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            within = list(tests_in(child, inherited))
            named = named or bool(within)
            yield from within
        elif isinstance(child, TestFunction) and child.name.startswith("test"):
            named = True
            yield child.name, inherited | own_ids(child)
    # A state machine's rules are no test functions: its class or file stands for them.
    if not named and own_ids(node):
        yield getattr(node, "name", "the whole file"), inherited


def collect() -> TestsById:
    """Return the tests by promise id, from every test file."""
    found: TestsById = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, ids in tests_in(ast.parse(path.read_text(encoding="utf-8")), set()):
            for promise in ids:
                found[promise].append(f"{path.relative_to(ROOT).as_posix()} · {name}")
    return found


def render(promises: dict[str, dict[str, str]], tests: TestsById) -> str:
    """Return the page; raises SystemExit for an id that a test names and nobody promised."""
    known = {key for group in promises.values() for key in group if key != "title"}
    if unknown := sorted(set(tests) - known):
        raise SystemExit(f"promises without a meaning in promises.toml: {', '.join(unknown)}")
    proved = len(known & set(tests))
    lines = [HEAD, f"{proved} of {len(known)} have tests."]
    for letter, group in promises.items():
        lines += ["", f"## {letter} · {group['title']}", ""]
        for key, meaning in group.items():
            if key != "title":
                lines.append(f"- **{key}** {meaning}{'' if tests.get(key) else ' *Not yet.*'}")
                lines += [f"  - `{test}`" for test in tests.get(key, [])]
    return "\n".join(lines) + "\n"


def main() -> None:
    page = render(tomllib.loads((DOCS / "promises.toml").read_text(encoding="utf-8")), collect())
    if sys.argv[1:] == ["--check"]:
        if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != page:
            raise SystemExit("docs/promises.md is stale: make promises")
    else:
        TARGET.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
