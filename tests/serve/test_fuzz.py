"""Requests made of the OpenAPI document: whatever is sent is answered, by a problem where it is not legal, and never by a bug."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.needs import IS_FULL
from tests.serve.asking import BEGIN, Api

CORPUS = Path(__file__).parent / "corpus"
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def _fitting(schema: dict[str, Any], schemas: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that mostly fit a schema: a wrong one in eight."""
    return st.one_of(*[_legal(schema, schemas)] * 7, _ANY)


def _legal(schema: dict[str, Any], schemas: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return _legal(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return st.one_of(*(_legal(each, schemas) for each in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        fields = {name: _fitting(each, schemas) for name, each in schema["properties"].items()}
        required = {name: fields.pop(name) for name in schema.get("required", ())}
        return st.fixed_dictionaries(required, optional=fields)
    if kind == "array":
        return st.lists(_fitting(schema["items"], schemas), min_size=1, max_size=3)
    if kind == "integer":
        return st.integers(schema.get("minimum", -5), 300)
    if kind == "string":
        return st.sampled_from(["s", "x", "minimise", "9 trials", "random", "x <= 9", "5m", "repeat", "a.b", "é", ""])
    plain = {"number": st.floats(0, 100), "boolean": st.booleans(), "null": st.none()}
    return plain.get(str(kind), _ANY)


@pytest.fixture
def bodies(api: Api) -> dict[str, st.SearchStrategy[Any]]:
    """Path of each POST -> what is sent to it; made once for all examples of a test."""
    document = api.get("/api/v1/openapi.json").json()
    schemas = document["components"]["schemas"]
    found = {}
    for path, operations in document["paths"].items():
        if "post" in operations:
            sent = operations["post"]["requestBody"]["content"]["application/json"]["schema"]
            found[path] = _fitting(schemas[sent["$ref"].rpartition("/")[2]], schemas)
    return found


def _answered(api: Api, path: str, data: bytes) -> None:
    answer = api.call("POST", path, content=data, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 201, 404, 409, 410, 413, 422), (path, data, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert set(answer.json()) <= {"type", "title", "status", "detail", "hint"}


@pytest.mark.slow
@settings(
    max_examples=2000 if IS_FULL else 60, deadline=None, database=None, derandomize=not IS_FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(data=st.data())
def test_whatever_is_sent_is_answered(api: Api, bodies: dict[str, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(bodies)))
    body = data.draw(bodies[path])
    if isinstance(body, dict) and isinstance(body.get("wait_s"), float):
        body["wait_s"] = 0.0
    _answered(api, path.replace("{name}", "s").replace("{id}", "1"), json.dumps(body).encode())


def test_the_corpus_is_answered(api: Api) -> None:
    """Requests that were once worth a thought."""
    api.post("/api/v1/sessions", BEGIN)
    files = sorted(CORPUS.iterdir())
    assert len(files) > 10
    for file in files:
        _answered(api, "/api/v1/sessions" + ("/s/report" if file.name.startswith("report") else ""), file.read_bytes())
