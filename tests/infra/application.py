"""`app.py` with empty bundles; `tests.infra.synthesis` runs it.

    python -m tests.infra.application VARIANT

The context comes from CDK_CONTEXT_JSON and the assembly goes to CDK_OUTDIR, as for `app.py`.
"""

import os
import sys
import zipfile
from pathlib import Path

from aws_cdk import App, Stack, Validations
from aws_cdk.aws_lambda import Function
from aws_cdk.aws_sqs import Queue
from cdk_nag import AwsSolutionsChecks

from infra.bundle import Bundle
from infra.pool import Pool
from infra.pools import POOLS
from infra.rulebook import Rulebook
from infra.schema import RESOLVERS
from infra.stacks import build
from tests.infra.synthesis import ALLOWED_LAMBDA, ENGINE_HASH, WORKER_HASH, Variant


class EmptyBundles:
    """Archives without code: templates do not depend on what is inside."""

    def __init__(self) -> None:
        self._path = Path(os.environ["CDK_OUTDIR"]).parent / "empty.zip"
        with zipfile.ZipFile(self._path, "w") as archive:
            archive.writestr("nothing.py", "")

    def engine(self) -> Bundle:
        return Bundle(path=self._path, sha256=ENGINE_HASH, compiled=True)

    def worker(self, pool: Pool) -> Bundle:  # noqa: ARG002 - the protocol's argument
        return Bundle(path=self._path, sha256=WORKER_HASH, compiled=True)


def mark(worker: Function) -> None:
    worker.add_environment("GRANTED", "true")


DOCUMENTS = Pool(
    name="documents",
    task_modules=("mycompany.scan", "mycompany.file"),
    memory_mb=2048,
    timeout_s=600,
    batch_size=1,
    max_concurrency=7,
    allowed_lambdas=(ALLOWED_LAMBDA,),
    environment={"MODEL": "small"},
    grants=mark,
)


def main(variant: Variant) -> None:
    app = App()
    match variant:
        case Variant.CARELESS:
            Queue(Stack(app, "Careless"), "Open")
        case Variant.UNWIRED:
            kept = {name: kind for name, kind in RESOLVERS.items() if name[1] != "getExecution"}
            build(app, artifacts=EmptyBundles(), resolvers=kept)
        case Variant.FULL:
            build(app, artifacts=EmptyBundles(), pools=(*POOLS, DOCUMENTS))
        case _:
            build(app, artifacts=EmptyBundles())
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), Rulebook())
    app.synth()


if __name__ == "__main__":
    main(Variant(sys.argv[1]))
