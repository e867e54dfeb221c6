"""Which deployment the command line talks to, on AWS or on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config

from infra.contract import Output

if TYPE_CHECKING:
    from mypy_boto3_cognito_idp import CognitoIdentityProviderClient

STACK_FILE: Final = Path("build/stack.json")

_OUTPUTS: Final = {
    "api_url": Output.API_URL,
    "user_pool_id": Output.USER_POOL_ID,
    "client_id": Output.USER_POOL_CLIENT_ID,
    "region": Output.REGION,
}
_VARIABLES: Final = {
    "api_url": "PITON_API_URL",
    "user_pool_id": "PITON_USER_POOL_ID",
    "client_id": "PITON_CLIENT_ID",
    "region": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
}


class TargetError(ValueError):
    """It is not said which deployment is meant; the message tells how to say it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A deployment. `endpoint_url` is that of the embedded AWS, None on AWS itself."""

    api_url: str
    user_pool_id: str
    client_id: str
    region: str
    endpoint_url: str | None = None

    @classmethod
    def find(cls, path: Path | None, environ: Mapping[str, str] = os.environ) -> Target:
        """Read `path`, or `STACK_FILE` if there is one; variables of the environment win.

        The file is the one that `make up` writes, or what `cdk deploy --outputs-file` writes.
        Raises `TargetError`.
        """
        if path is None and STACK_FILE.exists():
            path = STACK_FILE
        values = _read(path) if path else {}
        values |= {
            name: environ[variable]
            for name, variable in _VARIABLES.items()
            if environ.get(variable)
            # The endpoint belongs to the deployment that the file describes.
            and not (name == "endpoint_url" and values)
        }
        if missing := [name for name in _OUTPUTS if name not in values]:
            variables = ", ".join(_VARIABLES[name] for name in missing)
            raise TargetError(
                "no deployment is named: run `make up`, or give --stack with the file of "
                f"`cdk deploy --outputs-file`, or set {variables}"
            )
        return cls(**{name: values[name] for name in (*_OUTPUTS, "endpoint_url") if name in values})

    def write(self, path: Path) -> None:
        """Write the file that `find` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        named = {name: getattr(self, name) for name in self.__slots__}
        path.write_text(json.dumps(named, indent=2) + "\n")

    def cognito(self) -> CognitoIdentityProviderClient:
        """Return a client of the user pools."""
        session: dict[str, Any] = {"region_name": self.region}
        config = Config(connect_timeout=5, read_timeout=30, retries={"total_max_attempts": 2})
        if self.endpoint_url:
            # The embedded AWS takes any credentials, and is not behind the machine's proxy.
            session |= {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
            config = config.merge(Config(proxies={}))
        return boto3.Session(**session).client(
            "cognito-idp", endpoint_url=self.endpoint_url, config=config
        )


def _read(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise TargetError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TargetError(f"{path} is not JSON") from error
    if not isinstance(content, dict):
        raise TargetError(f"{path} does not describe a deployment")
    if "api_url" in content:
        return {name: str(value) for name, value in content.items() if value is not None}
    outputs = {
        name: value
        for stack in content.values()
        if isinstance(stack, dict)
        for name, value in stack.items()
    }
    return {name: str(outputs[output]) for name, output in _OUTPUTS.items() if output in outputs}
