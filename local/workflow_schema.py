"""Writes `schema/workflow.schema.json`, for editors that check workflows as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from piton.contracts import WorkflowDocument

FILE: Final = Path(__file__).resolve().parent.parent / "schema" / "workflow.schema.json"


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles, which only repeat the names of the fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        del schema
        return False


def render() -> str:
    """Return the file's text."""
    schema = WorkflowDocument.model_json_schema(by_alias=True, schema_generator=_Untitled)
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(described, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(render())
