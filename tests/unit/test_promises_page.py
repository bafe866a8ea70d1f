"""How docs/promises.py reads markers: no promise counts as proved by a test without it."""

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "promises.py"

SOURCE = """
pytestmark = [pytest.mark.django_db, pytest.mark.promise("M1")]

@pytest.mark.promise("A1", "A2")
def test_marked(): ...

def test_bare(): ...

def not_a_test(): ...

@pytest.mark.promise("E1")
class TestGroup:
    async def test_inside(self): ...
"""


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("promises", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_marks_of_functions_classes_and_files_add_up(page: ModuleType) -> None:
    assert dict(page.tests_in(ast.parse(SOURCE), set())) == {
        "test_marked": {"M1", "A1", "A2"},
        "test_bare": {"M1"},
        "test_inside": {"M1", "E1"},
    }


def test_a_marked_file_without_test_functions_stands_for_itself(page: ModuleType) -> None:
    source = 'pytestmark = pytest.mark.promise("P6")\nTestMachine = Machine.TestCase\n'
    assert list(page.tests_in(ast.parse(source), set())) == [("the whole file", {"P6"})]


def test_an_id_that_is_computed_is_refused(page: ModuleType) -> None:
    with pytest.raises(SystemExit, match="plain ids only"):
        list(page.ids_of(ast.parse("pytest.mark.promise(NAME)", mode="eval").body))


def test_an_unknown_id_is_refused_and_an_unproved_one_is_said(page: ModuleType) -> None:
    promises = {"M": {"title": "Marking", "M1": "One.", "M2": "Two."}}
    text = page.render(promises, {"M1": ["tests/x.py · test_y"]})
    assert "- **M1** One.\n  - `tests/x.py · test_y`\n- **M2** Two. *Not yet.*" in text
    assert "1 of 2 have tests" in text
    with pytest.raises(SystemExit, match="Z9"):
        page.render(promises, {"Z9": ["tests/x.py · test_y"]})
