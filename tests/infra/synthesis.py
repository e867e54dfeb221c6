"""Templates of the application, synthesized once per test session and read without CDK."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).resolve().parent.parent.parent
STACKS: Final = ("PitonData", "PitonEngine", "PitonApi")

ENGINE_HASH: Final = "e" * 64
WORKER_HASH: Final = "f" * 64
ALLOWED_LAMBDA: Final = "arn:aws:lambda:eu-west-1:111122223333:function:convert"
ALARM_TOPIC: Final = "arn:aws:sns:eu-west-1:111122223333:alarms"
IAM_TENANTS: Final = {
    "arn:aws:iam::111122223333:role/intake": {"groups": ["operators"], "tenant": "acme"}
}


class Variant(StrEnum):
    """Ways to synthesize the application.

    `FULL` is `PROD` with a key of the account and a second pool. The last two have a fault that
    must be found.
    """

    DEV = "dev"
    PROD = "prod"
    LOCAL = "local"
    FULL = "full"
    UNWIRED = "unwired"
    CARELESS = "careless"


CONTEXTS: Final[Mapping[Variant, Mapping[str, str]]] = {
    Variant.DEV: {"stage": "dev", "reserveConcurrency": "false"},
    Variant.PROD: {
        "stage": "prod",
        "alarmTopic": ALARM_TOPIC,
        "iamTenants": json.dumps(IAM_TENANTS),
    },
    Variant.LOCAL: {
        "stage": "local",
        "bodyLog": "/var/log/bodies.jsonl",
        "settings": '{"lease_ms": 3000}',
    },
    Variant.FULL: {"stage": "prod", "customerKey": "true"},
    Variant.UNWIRED: {"stage": "dev"},
    Variant.CARELESS: {"stage": "dev"},
}


@dataclass(frozen=True)
class Resource:
    """A resource of a template. Its properties are as in the template."""

    stack: str
    id: str
    body: Mapping[str, Any]

    @property
    def type(self) -> str:
        return str(self.body["Type"])

    def __getitem__(self, name: str) -> Any:
        return self.body["Properties"][name]

    def get(self, name: str) -> Any:
        return self.body.get("Properties", {}).get(name)


@dataclass(frozen=True)
class Assembly:
    """How a synthesis ended: exit code, what it printed and where the templates are."""

    code: int
    output: str
    folder: str

    def template_file(self, stack: str) -> Path:
        return Path(self.folder) / f"{stack}.template.json"

    def template(self, stack: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.template_file(stack).read_text())
        return found

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads((Path(self.folder) / "manifest.json").read_text())
        return found

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """All resources of all stacks."""
        return tuple(
            Resource(stack, id_, body)
            for stack in STACKS
            for id_, body in self.template(stack)["Resources"].items()
        )

    def of_type(self, type_: str) -> tuple[Resource, ...]:
        return tuple(resource for resource in self.resources if resource.type == type_)

    def named(self, type_: str, key: str, value: object) -> Resource:
        """The one resource of a type with this property."""
        (found,) = (each for each in self.of_type(type_) if each.get(key) == value)
        return found

    @cached_property
    def _exports(self) -> Mapping[str, str]:
        """What each exported name stands for."""
        return {
            output["Export"]["Name"]: self.text(output["Value"])
            for stack in STACKS
            for output in self.template(stack).get("Outputs", {}).values()
            if "Export" in output
        }

    def text(self, value: Any) -> str:
        """Write a value of a template as text: references become `<id>` or `<id.attribute>`."""
        match value:
            case {"Ref": str(id_)}:
                return f"<{id_}>"
            case {"Fn::GetAtt": [id_, attribute]}:
                return f"<{id_}.{attribute}>"
            case {"Fn::ImportValue": str(name)}:
                return self._exports[name]
            case {"Fn::Join": [separator, parts]}:
                return str(separator).join(self.text(part) for part in parts)
            case _:
                return str(value)

    def write(self, place: Path) -> None:
        place.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, place: Path) -> Self:
        return cls(**json.loads(place.read_text()))


def synthesize(variant: Variant, shared: Path) -> Assembly:
    """Return the variant's assembly; the first of all test processes makes it in `shared`."""
    folder = shared / f"synthesis-{variant}"
    folder.mkdir(exist_ok=True)
    place = folder / "assembly.json"
    with (folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _run(variant, folder).write(place)
    return Assembly.read(place)


def environment(home: Path, context: Mapping[str, object], assembly: Path) -> dict[str, str]:
    """What a process that synthesizes gets: no credentials, nor a home that holds some.

    Whoever asks the environment for a proxy reaches no network either.
    """
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HTTP_PROXY": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_OUTDIR": str(assembly),
        # Unpacked CDK, about 8 s of work: shared with whoever ran it before.
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(Path.home() / ".cache/aws/jsii/package-cache"),
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }


def _run(variant: Variant, folder: Path) -> Assembly:
    context = json.loads((ROOT / "cdk.json").read_text())["context"] | CONTEXTS[variant]
    assembly = folder / "cdk.out"
    done = subprocess.run(
        [sys.executable, "-m", "tests.infra.application", variant],
        cwd=ROOT,
        env=environment(folder, context, assembly),
        check=False,
        capture_output=True,
        text=True,
    )
    return Assembly(done.returncode, done.stdout + done.stderr, str(assembly))


def statements(assembly: Assembly, role_id: str) -> Iterator[Mapping[str, Any]]:
    """Yield the statements of all policies of a role."""
    for policy in assembly.of_type("AWS::IAM::Policy"):
        if {"Ref": role_id} in policy["Roles"]:
            yield from policy["PolicyDocument"]["Statement"]
    for role in assembly.of_type("AWS::IAM::Role"):
        if role.id == role_id:
            for policy in role.get("Policies") or ():
                yield from policy["PolicyDocument"]["Statement"]


def listed(value: Any) -> list[Any]:
    """A policy's element as a list: one entry may stand by itself."""
    return value if isinstance(value, list) else [value]
