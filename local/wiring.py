"""Reads from the synthesized templates which function answers which field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_API: Final = "AWS::AppSync::GraphQLApi"
_SOURCE: Final = "AWS::AppSync::DataSource"
_RESOLVER: Final = "AWS::AppSync::Resolver"
_FUNCTION: Final = "AWS::Lambda::Function"

DEEPEST_QUERY: Final = 75
MOST_RESOLVERS: Final = 10_000
"""AppSync's own limits, which hold where the API sets none."""

Field = tuple[str, str]
"""A field by type and name."""


class WiringError(ValueError):
    """The templates hold no API that can be served; the message names what is wrong."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Function names by field, and the limits of the API."""

    functions: Mapping[Field, str]
    depth_limit: int
    resolver_limit: int

    @classmethod
    def read(cls, assembly: Path) -> Wiring:
        """Read the templates in a cloud assembly. Raises `WiringError`."""
        for template in sorted(assembly.glob("*.template.json")):
            resources = json.loads(template.read_text())["Resources"]
            for _, api in _of_type(resources, _API):
                return cls(
                    dict(_functions(resources)),
                    api.get("QueryDepthLimit") or DEEPEST_QUERY,
                    api.get("ResolverCountLimit") or MOST_RESOLVERS,
                )
        raise WiringError(f"no template in {assembly} has an AppSync API: synthesize it first")


def _functions(resources: Mapping[str, Any]) -> Iterator[tuple[Field, str]]:
    names = {logical: api.get("FunctionName") for logical, api in _of_type(resources, _FUNCTION)}
    sources: dict[str, str] = {}
    for logical, source in _of_type(resources, _SOURCE):
        match source:
            case {
                "Type": "AWS_LAMBDA",
                "Name": str(name),
                "LambdaConfig": {"LambdaFunctionArn": {"Fn::GetAtt": [str(function), "Arn"]}},
            } if isinstance(function_name := names.get(function), str):
                sources[name] = function_name
            case _:
                raise WiringError(f"data source {logical} is no named function of the same stack")
    for logical, resolver in _of_type(resources, _RESOLVER):
        shaped = resolver.keys() & {"Code", "RequestMappingTemplate", "PipelineConfig"}
        if shaped or resolver.get("MaxBatchSize") or resolver["DataSourceName"] not in sources:
            raise WiringError(f"resolver {logical} is not a direct, unbatched call of a function")
        field = resolver["TypeName"], resolver["FieldName"]
        yield field, sources[resolver["DataSourceName"]]


def _of_type(resources: Mapping[str, Any], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for logical, resource in resources.items():
        if resource["Type"] == kind:
            yield logical, resource.get("Properties", {})
