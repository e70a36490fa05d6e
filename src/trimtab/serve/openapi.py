"""The OpenAPI document: made of the table of operations, so that it cannot say something else than the server does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trimtab import __version__
from trimtab.serve.api import Operation

__all__ = ["openapi"]

_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "unknown": {"type": "string", "description": "what of the request the server does not know: `ticket`"},
    },
}

_GOOD = {200: {"description": "done"}, 201: {"description": "made: there was none"}}


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """The document, version 3.1."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trimtab", "version": __version__, "description": "Sessions and studies over HTTP."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _described(each: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    refused = {"description": "refused", "content": {"application/problem+json": {"schema": _ref("Problem")}}}
    found: dict[str, Any] = {
        "summary": each.doc,
        "responses": {**{str(n): _GOOD[n] for n in each.statuses}, "4XX": refused, "5XX": refused},
    }
    parameters = [(name, "path", True) for name in re.findall(r"{(\w+)}", each.path)]
    parameters += [(name, "query", is_needed) for name, is_needed in each.query.items()]
    if parameters:
        found["parameters"] = [
            {"name": name, "in": where, "required": is_needed, "schema": {"type": "string"}}
            for name, where, is_needed in parameters
        ]
    if each.body is not None:
        schema = each.body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[each.body.__name__] = schema
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(each.body.__name__)}}}
    return found


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
