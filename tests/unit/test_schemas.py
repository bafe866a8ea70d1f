"""The schema that a payload must fit: read at the definition, checked at the door."""

import pytest
from pydantic import BaseModel, Field

from hitl import schemas


class Reply(BaseModel):
    """A reply."""

    text: str
    stars: int = Field(ge=1, le=5)


@pytest.mark.promise("W6")
def test_a_pydantic_model_and_a_dict_are_read_as_a_json_schema() -> None:
    read = schemas.read(Reply)
    assert read is not None
    assert read["required"] == ["text", "stars"]
    assert schemas.read({"type": "object"}) == {"type": "object"}
    assert schemas.read(None) is None


@pytest.mark.parametrize("wrong", [42, "object", {"type": "no such type"}, int])
def test_what_is_no_schema_is_refused_when_it_is_written(wrong: object) -> None:
    with pytest.raises(schemas.InvalidSchema):
        schemas.read(wrong)


def test_a_payload_that_does_not_fit_is_told_where() -> None:
    schema = schemas.read(Reply)
    assert schema is not None
    assert schemas.fault(schema, {"text": "yes", "stars": 4}) is None
    said = schemas.fault(schema, {"text": "yes", "stars": 9})
    assert said == (
        "The payload does not fit what this request asks for. "
        "stars: 9 is greater than the maximum of 5"
    )
    assert "'text' is a required property" in str(schemas.fault(schema, {"stars": 4}))
    assert schemas.fault(schema, None) is not None


@pytest.mark.parametrize("target", ["http://127.0.0.1:1/schema.json", "#/$defs/missing"])
def test_a_schema_that_refers_elsewhere_fetches_nothing_and_lets_nothing_pass(target: str) -> None:
    schema = schemas.read({"$ref": target})
    assert schema is not None
    found = schemas.fault(schema, {"anything": 1})
    assert found is not None
    assert "refers to what it does not hold" in found
