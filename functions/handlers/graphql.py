"""What the resolvers share: who calls, answers, and errors as the schema promises them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import AppSyncResolver
from aws_lambda_powertools.utilities.data_classes import AppSyncResolverEvent
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import ValidationError

from handlers.identity import caller_of
from handlers.runtime import flushing
from piton.bootstrap import ApiDesk
from piton.contracts import problems_of
from piton.domain.canonical import Json
from piton.domain.errors import Bug, ErrorCode, Rejected, Retry
from piton.services.caller import Caller

S = TypeVar("S")

MUTATION: Final = "Mutation"
_SHOWN_FAULTS: Final = 10
Handler = Callable[[dict[str, Any], LambdaContext], Any]


class QueryRefused(Exception):
    """Becomes an entry in the `errors` of the answer: AppSync shows the message alone."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code}: {message}")


@dataclass(frozen=True, slots=True)
class Call(Generic[S]):
    """One field to resolve. `source` is the object that it is a field of."""

    service: S
    caller: Caller
    arguments: Mapping[str, Any]
    source: Mapping[str, Any]

    def optional(self, name: str) -> Any:
        """Return an argument, None when it was left out."""
        return self.arguments.get(name)


Resolver = Callable[[Call[S]], Json]


class Fields(Generic[S]):
    """The fields that one function resolves, by type and name."""

    def __init__(self) -> None:
        self.resolvers: dict[tuple[str, str], Resolver[S]] = {}

    def resolve(self, type_name: str, name: str) -> Callable[[Resolver[S]], Resolver[S]]:
        """Register the decorated function for a field."""

        def register(resolver: Resolver[S]) -> Resolver[S]:
            self.resolvers[type_name, name] = resolver
            return resolver

        return register


def serve(fields: Fields[S], desk: Callable[[], ApiDesk[S]], logger: Logger) -> Handler:
    """Return the function's entry point.

    Mutations answer with `error` in their payload; queries raise `QueryRefused`.
    """
    app = AppSyncResolver()  # type: ignore[no-untyped-call]
    for (type_name, name), resolver in fields.resolvers.items():
        app.resolver(type_name=type_name, field_name=name)(
            _guarded(app, type_name, name, resolver, desk, logger)
        )

    @logger.inject_lambda_context(clear_state=True)
    def handler(event: dict[str, Any], context: LambdaContext) -> Any:
        with flushing(desk().metrics):
            return app.resolve(event, context)

    return handler


def _guarded(
    app: AppSyncResolver,
    type_name: str,
    name: str,
    resolver: Resolver[S],
    desk: Callable[[], ApiDesk[S]],
    logger: Logger,
) -> Callable[..., Json]:
    def resolve(**arguments: Any) -> Json:
        event, context = _current(app)
        source = event.get("source") or {}
        about = arguments.get("executionId") or arguments.get("id") or source.get("id")
        if isinstance(about, str):
            logger.set_correlation_id(about[:128])
        try:
            caller = caller_of(event.get("identity"), desk().roles)
            answer = resolver(Call(desk().service, caller, arguments, source))
        except Rejected as refusal:
            logger.info("refused", field=name, code=refusal.code.value)
            return _refuse(type_name, refusal.code, refusal.message)
        except ValidationError as error:
            faults = "; ".join(str(problem) for problem in problems_of(error)[:_SHOWN_FAULTS])
            return _refuse(type_name, ErrorCode.INVALID_INPUT, faults)
        except Retry as error:
            logger.warning("a dependency did not answer", field=name, exc_info=error)
            return _refuse(
                type_name, ErrorCode.BUSY, "We could not do this in time; try again in a moment"
            )
        except Exception:
            logger.exception("unexpected", field=name)
            return _refuse(
                type_name,
                ErrorCode.INTERNAL,
                "Something went wrong on our side; when you report it, name reference "
                f"{context.aws_request_id}",
            )
        if type_name == MUTATION:
            match answer:
                case {"execution": {"id": str(execution_id)}}:
                    logger.set_correlation_id(execution_id)
                case _:
                    pass
            logger.info("done", field=name, tenant=caller.tenant, caller=caller.subject)
        return answer

    return resolve


def _current(app: AppSyncResolver) -> tuple[AppSyncResolverEvent, LambdaContext]:
    if app.current_event is None or app.lambda_context is None:
        raise Bug("a field is resolved outside an invocation")
    return app.current_event, app.lambda_context


def _refuse(type_name: str, code: ErrorCode, message: str) -> Json:
    if type_name == MUTATION:
        return {"error": {"code": code.value, "message": message}}
    # Without its cause: the runtime logs what it is given, and the cause is logged already.
    raise QueryRefused(code, message) from None
