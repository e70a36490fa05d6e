"""The OpenAPI document: it describes what the server does, and nothing else."""

from __future__ import annotations

import json

import pytest

from tests.serve.asking import BEGIN, Api, require_described


def test_the_document_describes_every_route(api: Api) -> None:
    document = api.get("/api/v1/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    schema = document["components"]["schemas"]["BeginBody"]
    assert set(schema["required"]) == {"name", "knobs"}
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method in operations:
            answer = api.call(
                method.upper(),
                path.replace("{name}", "zz").replace("{id}", "zz").replace("{client}", "zz"),
                content=b"!",
            )
            assert answer.status_code in (200, 404, 422), (method, path, answer.text)


def test_the_document_tells_each_answer_and_no_other(api: Api) -> None:
    """That no answer is left out, `Api` checks in every test; here: none is told that never comes."""
    document = api.get("/api/v1/openapi.json").json()
    good = {
        (method, path): {status for status in operation["responses"] if status.isdecimal()}
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert good.pop(("post", "/api/v1/sessions")) == {"200", "201"}
    assert set(map(frozenset, good.values())) == {frozenset({"200"})}
    assert [api.post("/api/v1/sessions", BEGIN).status_code for _ in range(2)] == [201, 200]
    with pytest.raises(AssertionError, match="POST /api/v1/sessions/s/pause gave 201"):
        require_described("POST", "/api/v1/sessions/s/pause", 201)


def test_the_document_tells_what_stands_behind_a_path(api: Api) -> None:
    """Programs that are made from the document could not compare two studies without it."""
    paths = api.get("/api/v1/openapi.json").json()["paths"]
    told = {
        (path.rpartition("/")[2], each["name"]): each["required"]
        for path, operations in paths.items()
        for operation in operations.values()
        for each in operation.get("parameters", ())
        if each["in"] == "query"
    }
    assert told == {("charts", "more"): False, ("compare", "with"): True}


def test_every_member_of_a_problem_is_in_the_document(api: Api) -> None:
    api.post("/api/v1/sessions", BEGIN)
    said = {"client": api.join(), "ticket": "1.99.1.x", "value": 1.0}
    problem = api.post("/api/v1/sessions/s/report", said).json()
    schema = api.get("/api/v1/openapi.json").json()["components"]["schemas"]["Problem"]
    assert problem["unknown"] == "ticket"
    assert set(problem) <= set(schema["properties"])
