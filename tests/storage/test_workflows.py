"""Registered versions, on every host."""

import json
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Final

import pytest

from piton.adapters import workflows as adapter
from piton.adapters.workflows import Workflows
from piton.domain import canonical
from piton.domain.compile import Need, NodeSpec, PoolLimits, compile_graph
from piton.domain.errors import Bug, Rejected, Retry
from piton.domain.graph import Graph
from piton.domain.retry import RetryPolicy
from piton.domain.rows import Attributes, Value
from piton.domain.status import EdgeOn
from piton.ports import Applied, BlobStore, Outcome, Page, Store, Workflow
from piton.storage import keys
from piton.storage.algebra import Args, Const, Exists, Item, Operation, Set
from piton.storage.dynamodb import DynamoStore
from piton.storage.keys import Key
from piton.storage.sqlite import SqliteStore

NOW: Final = 1_760_000_000_000
POOLS: Final = {"default": PoolLimits(900), "big": PoolLimits(7200, frozenset({"arn:x"}))}
SPECS: Final = (
    NodeSpec("a", task="t", params={"rate": 0.1, "deep": {"list": [1, None, True]}}),
    NodeSpec("b", task="t", retry=RetryPolicy(5, 0.5, 30), needs=(Need("a", when="ok"),)),
    NodeSpec("c", lambda_arn="arn:x", pool="big", timeout_s=7000, needs=(Need("a"),)),
    NodeSpec("d", task="t", needs=(Need("b", EdgeOn.ALWAYS), Need("c", EdgeOn.FAILURE))),
)


def compiled(workflow_id: str = "w", specs: tuple[NodeSpec, ...] = SPECS) -> Graph:
    return compile_graph(
        workflow_id, specs, pools=POOLS, check_condition=lambda _: None, timeout_s=3600
    )


def definition(text: str) -> str:
    return canonical.dumps({"id": "w", "about": text})


AnyStore = DynamoStore | SqliteStore


@pytest.fixture
def open_workflows(store: AnyStore, blobs: BlobStore) -> Callable[[], Workflows]:
    """Open the versions anew: nothing is cached yet."""
    return lambda: Workflows(store, blobs)


@pytest.fixture
def workflows(open_workflows: Callable[[], Workflows]) -> Workflows:
    return open_workflows()


def register(
    workflows: Workflows, text: str, tenant: str = "acme", workflow_id: str = "w"
) -> Workflow:
    return workflows.register(tenant, definition(text), compiled(workflow_id), NOW, "ada")


def test_a_version_loads_as_it_was_registered(
    workflows: Workflows, open_workflows: Callable[[], Workflows]
) -> None:
    registered = register(workflows, "one \u00e9")
    assert (registered.version, registered.created_at, registered.actor) == (1, NOW, "ada")
    assert registered.definition == definition("one \u00e9")
    loaded = open_workflows().load("acme", "w", 1)
    assert loaded == registered
    assert loaded.graph == compiled()


def test_versions_count_up_and_a_repeated_definition_is_the_latest_one(
    workflows: Workflows,
) -> None:
    first, second = register(workflows, "one"), register(workflows, "two")
    assert (first.version, second.version) == (1, 2)
    assert first.hash != second.hash
    assert register(workflows, "two") == second
    assert workflows.latest_version("acme", "w") == 2
    # The one before the latest is a change like any other.
    assert register(workflows, "one").version == 3
    assert workflows.latest_version("acme", "w") == 3


def test_a_repetition_keeps_its_compiled_graph(workflows: Workflows) -> None:
    first = register(workflows, "one")
    other_graph = compiled(specs=SPECS[:1])
    again = workflows.register("acme", definition("one"), other_graph, NOW + 1, "grace")
    assert again == first


def test_what_is_missing_is_none_and_is_looked_for_again(workflows: Workflows) -> None:
    assert workflows.latest_version("acme", "w") is None
    assert workflows.load("acme", "w", 1) is None
    register(workflows, "one")
    assert workflows.load("acme", "w", 1) is not None
    assert workflows.load("acme", "w", 2) is None
    assert workflows.load("acme-2", "w", 1) is None
    assert workflows.latest_version("acme-2", "w") is None


def test_ids_are_listed_once_each_by_tenant_and_in_order(workflows: Workflows) -> None:
    for workflow_id in ("b", "a.2", "c", "a", "A"):
        register(workflows, "one", workflow_id=workflow_id)
        register(workflows, "two", workflow_id=workflow_id)
    register(workflows, "one", tenant="acme-2", workflow_id="z")
    everything = workflows.list_ids("acme", limit=10, token=None)
    assert (list(everything.items), everything.next_token) == (["A", "a", "a.2", "b", "c"], None)
    pages: list[list[str]] = []
    token: str | None = None
    while True:
        page = workflows.list_ids("acme", limit=2, token=token)
        pages.append(list(page.items))
        token = page.next_token
        if token is None:
            break
    assert pages == [["A", "a"], ["a.2", "b"], ["c"]]
    assert workflows.list_ids("nobody", limit=2, token=None).items == []


def test_page_tokens_belong_to_one_tenants_list(workflows: Workflows) -> None:
    for workflow_id in ("a", "b"):
        register(workflows, "one", workflow_id=workflow_id)
    token = workflows.list_ids("acme", limit=1, token=None).next_token
    assert token is not None
    for tenant, bad in (("acme-2", token), ("acme", token[1:]), ("acme", "x")):
        with pytest.raises(Rejected):
            workflows.list_ids(tenant, limit=1, token=bad)


# --- Integrity -----------------------------------------------------------------------------


def overwrite(store: Store, attribute: str, value: Value) -> None:
    operation = Operation(
        "test.overwrite", Item.WORKFLOW, (Exists("wf_hash"),), (Set(attribute, Const(value)),)
    )
    assert store.apply(operation, keys.workflow("acme", "w", 1), {}) == Applied()


@pytest.mark.parametrize(
    ("attribute", "value"), [("wf_hash", "0" * 64), ("wf_body", b"x\x9cgarbage"), ("wf_body", b"")]
)
def test_a_row_that_does_not_match_its_hash_is_a_bug(
    workflows: Workflows,
    open_workflows: Callable[[], Workflows],
    store: AnyStore,
    attribute: str,
    value: Value,
) -> None:
    register(workflows, "one")
    overwrite(store, attribute, value)
    with pytest.raises(Bug, match="workflow w version 1"):
        open_workflows().load("acme", "w", 1)


@pytest.fixture
def small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MAX_ROW_BYTES", 100)


@pytest.mark.usefixtures("small_rows")
def test_a_large_body_goes_to_the_blobs_under_its_content(
    workflows: Workflows,
    open_workflows: Callable[[], Workflows],
    store: AnyStore,
    blobs: BlobStore,
) -> None:
    registered = register(workflows, "one")
    row = store.get_raw(keys.workflow("acme", "w", 1), ["wf_ref", "wf_body"])
    assert row is not None
    assert row.keys() == {"wf_ref"}
    ref = row["wf_ref"]
    assert isinstance(ref, str)
    assert ref.startswith("workflows/acme/")
    assert open_workflows().load("acme", "w", 1) == registered

    other = ref.replace(ref[-64:], "0" * 64)
    overwrite(store, "wf_ref", other)
    with pytest.raises(Bug, match="blob is gone"):
        open_workflows().load("acme", "w", 1)
    blobs.put(other, b"garbage")
    with pytest.raises(Bug, match="cannot be read"):
        open_workflows().load("acme", "w", 1)


# --- Size and speed ------------------------------------------------------------------------


def wide_and_deep(nodes: int) -> tuple[NodeSpec, ...]:
    """Return a graph of realistic density: up to three needs each, somewhere before."""
    choice = random.Random(1)  # noqa: S311
    return tuple(
        NodeSpec(
            f"step-{number:05d}",
            task=choice.choice(("align.reads", "sort.reads", "call.variants", "merge")),
            params={"chunk": number, "reference": f"s3://genomes/{choice.randrange(10**9)}"},
            needs=tuple(
                Need(f"step-{source:05d}")
                for source in sorted({choice.randrange(number) for _ in range(3)})
            )
            if number
            else (),
        )
        for number in range(nodes)
    )


def test_ten_thousand_nodes_register_and_load(
    workflows: Workflows, open_workflows: Callable[[], Workflows]
) -> None:
    specs = wide_and_deep(10_000)
    graph = compiled("large", specs)
    document = canonical.dumps(
        {
            "id": "large",
            "nodes": [
                {
                    "id": spec.id,
                    "task": spec.task,
                    "params": dict(spec.params),
                    "needs": [need.node for need in spec.needs],
                }
                for spec in specs
            ],
        }
    )
    registered = workflows.register("acme", document, graph, NOW, "ada")
    loaded = open_workflows().load("acme", "large", 1)
    assert loaded is not None
    assert loaded.hash == registered.hash
    assert loaded.graph == graph
    assert json.loads(loaded.definition)["nodes"][9_999]["id"] == "step-09999"


# --- Caching and contention ----------------------------------------------------------------


class Watched:
    """Rows of a store, with a count of reads and a moment before each write."""

    def __init__(self, store: AnyStore) -> None:
        self._store = store
        self.reads = 0
        self.before_write: Callable[[], object] = lambda: None

    def apply(self, operation: Operation, key: Key, args: Args) -> Outcome:
        self.before_write()
        return self._store.apply(operation, key, args)

    def get_raw(self, key: Key, attributes: Sequence[str]) -> Attributes | None:
        self.reads += 1
        return self._store.get_raw(key, attributes)

    def latest_workflow(
        self, tenant: str, workflow_id: str, attributes: Sequence[str]
    ) -> Attributes | None:
        return self._store.latest_workflow(tenant, workflow_id, attributes)

    def list_workflows(self, tenant: str, *, limit: int, token: str | None) -> Page[str]:
        return self._store.list_workflows(tenant, limit=limit, token=token)


@pytest.fixture
def watched(store: AnyStore) -> Watched:
    return Watched(store)


def test_a_version_is_read_once(watched: Watched, blobs: BlobStore) -> None:
    workflows = Workflows(watched, blobs)
    register(workflows, "one")
    loaded = [workflows.load("acme", "w", 1) for _ in range(3)]
    assert loaded[0] is not None
    assert loaded[0] is loaded[2]
    assert watched.reads == 1


def test_the_cache_holds_so_many_nodes(
    watched: Watched, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = len(compiled().nodes)
    monkeypatch.setattr(adapter, "_CACHED_NODES", 2 * nodes)
    workflows = Workflows(watched, blobs)
    for workflow_id in ("a", "b", "c"):
        register(workflows, "one", workflow_id=workflow_id)
    for workflow_id in ("a", "b", "a", "c", "a"):
        workflows.load("acme", workflow_id, 1)
    assert watched.reads == 3
    workflows.load("acme", "b", 1)
    assert watched.reads == 4


def test_whoever_comes_second_gets_the_next_version(watched: Watched, blobs: BlobStore) -> None:
    rival = Workflows(watched, blobs)

    def come_first() -> None:
        watched.before_write = lambda: None
        assert register(rival, "rival").version == 1

    watched.before_write = come_first
    workflows = Workflows(watched, blobs)
    assert register(workflows, "mine").version == 2
    assert list(workflows.list_ids("acme", limit=5, token=None).items) == ["w"]


def test_whoever_comes_second_with_the_same_definition_gets_that_version(
    watched: Watched, blobs: BlobStore
) -> None:
    def come_first() -> None:
        watched.before_write = lambda: None
        register(Workflows(watched, blobs), "same")

    watched.before_write = come_first
    workflows = Workflows(watched, blobs)
    assert register(workflows, "same").version == 1
    assert workflows.latest_version("acme", "w") == 1


def test_registrations_that_keep_coming_first_end_in_a_retry(
    watched: Watched, store: AnyStore, blobs: BlobStore
) -> None:
    rival = Workflows(store, blobs)
    numbers = count()
    watched.before_write = lambda: register(rival, f"rival {next(numbers)}")
    with pytest.raises(Retry):
        register(Workflows(watched, blobs), "mine")


def test_registrations_side_by_side_take_different_versions(
    store: AnyStore, blobs: BlobStore
) -> None:
    def until_it_works(number: int) -> int:
        workflows = Workflows(store, blobs)
        while True:
            try:
                return register(workflows, f"definition {number}").version
            except Retry:
                continue

    with ThreadPoolExecutor(8) as threads:
        versions = list(threads.map(until_it_works, range(16)))
    assert sorted(versions) == list(range(1, 17))


def test_only_the_first_version_stands_in_the_index(workflows: Workflows, store: AnyStore) -> None:
    register(workflows, "one")
    register(workflows, "two")
    entries = [
        store.get_raw(keys.workflow("acme", "w", version), ["wf_tenant", "wf_id"])
        for version in (1, 2)
    ]
    assert entries == [{"wf_tenant": "acme", "wf_id": "w"}, {}]
