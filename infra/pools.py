"""Your pools. Add one here and name it in a workflow's nodes (`pool: documents`).

    Pool(
        name="documents",
        task_modules=("mycompany.documents.tasks",),
        packages=(ROOT / "mycompany",),
        requirements=ROOT / "mycompany/requirements.txt",
        memory_mb=2048,
        timeout_s=600,
        grants=lambda worker: archive_bucket.grant_read(worker),
    )

`requirements` is a lock with hashes; `make lock` shows how the ones here are made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from infra.pool import Pool

ROOT: Final = Path(__file__).resolve().parent.parent

POOLS: Final[tuple[Pool, ...]] = (
    # Nodes that name no pool run here. The timeout is short because a message that a killed worker
    # had taken stays hidden for six times as long.
    Pool(
        name="default",
        task_modules=("examples.invoices.tasks", "examples.dag.tasks", "examples.hello.tasks"),
        packages=(ROOT / "examples",),
        requirements=ROOT / "examples/requirements.txt",
        timeout_s=60,
    ),
)
