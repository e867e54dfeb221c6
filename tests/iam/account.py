"""Where requests go: names of one account and region, and the keys of its tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.iam.patterns import Undecidable


@dataclass(frozen=True, slots=True)
class TableKeys:
    """Key attributes of a table and of each of its indexes, the partition key first."""

    table: tuple[str, ...]
    indexes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Account:
    """One account in one region. `keys` are its own KMS keys, by the ARN of what they encrypt."""

    account_id: str
    region: str
    tables: Mapping[str, TableKeys] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    partition: str = "aws"

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a regional resource."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account_id}:{resource}"

    def table(self, name: str) -> tuple[str, TableKeys]:
        """Return ARN and keys of a table that a request gives by name or by ARN."""
        short = name.rpartition("table/")[2] if name.startswith("arn:") else name
        if short not in self.tables:
            raise Undecidable(f"table {name!r} is not known here")
        arn = name if name.startswith("arn:") else self.arn("dynamodb", f"table/{name}")
        return arn, self.tables[short]

    def queue(self, url: str) -> str:
        """Return the ARN of a queue by its URL."""
        parts = urlsplit(url).path.strip("/").split("/")
        if len(parts) != 2:
            raise Undecidable(f"{url!r} is not the URL of a queue")
        owner, name = parts
        return f"arn:{self.partition}:sqs:{self.region}:{owner}:{name}"

    def function(self, name: str) -> str:
        """Return the ARN of a function by its name or ARN."""
        return name if name.startswith("arn:") else self.arn("lambda", f"function:{name}")
