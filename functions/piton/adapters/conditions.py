"""Edge conditions in JMESPath (https://jmespath.org/specification.html)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from jmespath.parser import ParsedResult

from piton.domain.canonical import Json
from piton.domain.frontier import ConditionFault

_SIGNATURES: Final[dict[str, Any]] = Functions.FUNCTION_TABLE

# What the library lets through, besides its own errors, on values that an expression does not fit.
_EVALUATION_FAULTS: Final = (
    JMESPathError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def check_condition(text: str) -> str | None:
    """Return what is wrong with a condition, or None when it compiles.

    Functions are checked too: the library itself would find an unknown one only at run time.
    """
    try:
        expression = _compiled(text)
    except RecursionError:
        return "nested too deeply"
    except JMESPathError as error:
        return f"not JMESPath: {_first_line(error)}"
    if expression.parsed["type"] == "expref":
        return "an expression reference has no value of its own"
    return next(_function_faults(dict(expression.parsed)), None)


def evaluate_condition(text: str, document: Json) -> bool:
    """Tell whether a condition holds over `document`.

    False, null and empty strings, lists and objects are false; everything else, 0 included, is
    true. Raises `ConditionFault` when the expression does not fit the document.
    """
    try:
        value = _compiled(text).search(document)
    except _EVALUATION_FAULTS as error:
        raise ConditionFault(type(error).__name__) from error
    return not (value is None or value is False or value in ("", [], {}))


@lru_cache(maxsize=1024)
def _compiled(text: str) -> ParsedResult:
    return jmespath.compile(text)


def _first_line(error: JMESPathError) -> str:
    return str(error).splitlines()[0][:200]


def _function_faults(tree: dict[str, Any]) -> Iterator[str]:
    pending = [tree]
    while pending:
        part = pending.pop()
        children = [child for child in part.get("children", ()) if isinstance(child, dict)]
        pending.extend(children)
        if part.get("type") != "function_expression":
            continue
        name = part["value"]
        if name not in _SIGNATURES:
            yield f"there is no function {name}()"
            continue
        signature = _SIGNATURES[name]["signature"]
        variadic = bool(signature) and signature[-1].get("variadic", False)
        wanted, given = len(signature), len(children)
        if given < wanted or (given > wanted and not variadic):
            yield f"{name}() takes {wanted} argument(s){' or more' if variadic else ''}"
