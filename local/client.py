"""A client of the API, for the command line and for scripts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

_TIMEOUT_S: Final = 35.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_PAGE: Final = 100
_HISTORY_PAGE: Final = 1000

EXECUTION_FIELDS: Final = """
  id status workflowId workflowVersion createdAt startedAt finishedAt endsBy deadlineAt
  actor reason reasonNode note resumes resumedAt resumedBy parked
"""
NODE_FIELDS: Final = """
  id ordinal kind action pool needs status attempt queuedAt notBefore startedAt leaseUntil
  finishedAt reason progress progressNote result resultHash
  attempts {
    number queuedAt notBefore startedAt finishedAt outcome reason owner codeHash
    log { group filter from until }
  }
"""
HISTORY_FIELDS: Final = """
  at transition trigger nodeId attempt fence reason owner codeHash notBefore actor
"""

Answer = dict[str, Any]


class ApiError(Exception):
    """Base of what can go wrong with a call."""


class ApiRejected(ApiError):
    """The API answered and refused. `code` is stable, `message` says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ApiUnreachable(ApiError):
    """There was no answer, or none of the API's."""


class Api:
    """GraphQL over HTTP with an ID token. Every method raises `ApiError`."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        # Requests to this machine never take the way through a proxy.
        local = urlsplit(url).hostname in _LOOPBACK
        handlers = [urllib.request.ProxyHandler({})] if local else []
        self._opener = urllib.request.build_opener(*handlers)

    def start(self, asked: Mapping[str, Any]) -> Answer:
        """Start an execution; return `{"execution", "created"}`.

        `asked` has the fields of `StartExecutionInput`, with `input` as plain data.
        """
        written = dict(asked)
        if written.get("input") is not None:
            written["input"] = json.dumps(written["input"], ensure_ascii=False)
        return self._mutate(
            "startExecution",
            "mutation($input: StartExecutionInput!) { startExecution(input: $input) {"
            f" created execution {{ {EXECUTION_FIELDS} }} error {{ code message }} }} }}",
            {"input": written},
        )

    def resume(self, execution_id: str) -> Answer:
        """Resume an execution; return it."""
        return self._execution(
            "resumeExecution",
            "mutation($id: ID!) { resumeExecution(executionId: $id) {"
            f" execution {{ {EXECUTION_FIELDS} }} error {{ code message }} }} }}",
            {"id": execution_id},
        )

    def cancel(self, execution_id: str, reason: str | None = None) -> Answer:
        """Cancel an execution; return it."""
        return self._execution(
            "cancelExecution",
            "mutation($id: ID!, $reason: String) {"
            " cancelExecution(executionId: $id, reason: $reason) {"
            f" execution {{ {EXECUTION_FIELDS} }} error {{ code message }} }} }}",
            {"id": execution_id, "reason": reason},
        )

    def register(self, definition: str) -> Answer:
        """Register a workflow; return its id, version, hash and number of nodes."""
        answer = self._mutate(
            "registerWorkflow",
            "mutation($text: String!) { registerWorkflow(definition: $text) {"
            " workflow { id version hash createdAt actor nodeCount } error { code message } } }",
            {"text": definition},
        )
        workflow: Answer = answer["workflow"]
        return workflow

    def execution(self, execution_id: str, *, payloads: bool = False) -> Answer | None:
        """Return an execution, None if there is none; with `payloads` its input and output."""
        extra = "input output" if payloads else ""
        data = self.execute(
            f"query($id: ID!) {{ getExecution(id: $id) {{ {EXECUTION_FIELDS} {extra} }} }}",
            {"id": execution_id},
        )
        found: Answer | None = data["getExecution"]
        if found and payloads:
            for name in ("input", "output"):
                found[name] = json.loads(found[name]) if found[name] else None
        return found

    def nodes(self, execution_id: str) -> list[Answer]:
        """Return all nodes of an execution, in the order of the definition."""
        return list(self._pages(execution_id, f"nodes(limit: {_PAGE}", NODE_FIELDS, "nodes"))

    def history(self, execution_id: str) -> list[Answer]:
        """Return every transition of an execution in the order of time."""
        field = f"history(limit: {_HISTORY_PAGE}"
        entries = list(self._pages(execution_id, field, HISTORY_FIELDS, "history"))
        return sorted(entries, key=lambda entry: str(entry["at"]))

    def execute(self, query: str, variables: Mapping[str, Any]) -> Answer:
        """Send a GraphQL request and return its data; any error in the answer is raised."""
        answer = self._post({"query": query, "variables": variables})
        for error in answer.get("errors") or ():
            raise _rejection(error)
        data: Answer = answer["data"]
        return data

    def _mutate(self, name: str, query: str, variables: Mapping[str, Any]) -> Answer:
        payload: Answer = self.execute(query, variables)[name]
        if error := payload.pop("error"):
            raise ApiRejected(error["code"], error["message"])
        return payload

    def _execution(self, name: str, query: str, variables: Mapping[str, Any]) -> Answer:
        execution: Answer = self._mutate(name, query, variables)["execution"]
        return execution

    def _pages(self, execution_id: str, field: str, fields: str, name: str) -> Iterator[Answer]:
        query = (
            "query($id: ID!, $token: String) { getExecution(id: $id) {"
            f" {field}, nextToken: $token) {{ nextToken items {{ {fields} }} }} }} }}"
        )
        token: str | None = None
        while True:
            data = self.execute(query, {"id": execution_id, "token": token})
            if data["getExecution"] is None:
                return
            page = data["getExecution"][name]
            yield from page["items"]
            token = page["nextToken"]
            if token is None:
                return

    def _post(self, content: Mapping[str, Any]) -> Answer:
        request = urllib.request.Request(  # noqa: S310 - the address is the user's own
            self._url,
            data=json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"),
            headers={"Content-Type": "application/json", "Authorization": self._token},
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                return _object(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise _http_error(error, _object(error.read())) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ApiUnreachable(f"{self._url} does not answer: {reason}") from error


def _object(body: bytes) -> Answer:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _http_error(error: urllib.error.HTTPError, answer: Answer) -> ApiError:
    first = next(iter(answer.get("errors") or ()), None) or {}
    message = str(first.get("message") or error.reason)
    if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return ApiRejected("UNAUTHENTICATED", f"{message}. Sign in again: piton token")
    if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return ApiRejected("INVALID_INPUT", message)
    return ApiUnreachable(f"{error.url} answers {error.code}: {message}")


def _rejection(error: Mapping[str, Any]) -> ApiRejected:
    message = str(error.get("message"))
    code, colon, text = message.partition(": ")
    if colon and code.isupper() and code.replace("_", "").isalpha():
        return ApiRejected(code, text)
    return ApiRejected("INVALID_INPUT", message)
