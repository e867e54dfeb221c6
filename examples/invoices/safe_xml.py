"""XML from strangers: no document type, no entities, no external references, bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from examples.invoices.record import is_decimal
from examples.invoices.unreadable import Reason, Unreadable


class Node:
    """An element together with the prefixes that its paths are written with."""

    def __init__(self, element: Element, prefixes: Mapping[str, str]) -> None:
        self._element = element
        self._prefixes = dict(prefixes)

    @property
    def tag(self) -> str:
        """The element's name as `{namespace}local`."""
        return self._element.tag

    def text(self, path: str) -> str | None:
        """Text of the first element at `path` with its whitespace collapsed; None if empty."""
        found = self._element.findtext(path, default="", namespaces=self._prefixes)
        return " ".join(found.split()) or None

    def all(self, path: str) -> Iterator[Node]:
        for element in self._element.iterfind(path, self._prefixes):
            yield Node(element, self._prefixes)

    def first(self, path: str) -> Node | None:
        return next(self.all(path), None)

    def required(self, path: str) -> Node:
        """The first element at `path`; raises `Unreadable` with the path if there is none."""
        found = self.first(path)
        if found is None:
            raise Unreadable(Reason.FIELD_MISSING, path)
        return found

    def attribute(self, name: str) -> str | None:
        return self._element.get(name)

    def amount(self, path: str) -> Decimal:
        """The decimal at `path`, zero if absent; raises `Unreadable` with the path if it is none.

        For sums within a parser only: what goes into a record is validated there.
        """
        text = self.text(path) or "0"
        if not is_decimal(text):
            raise Unreadable(Reason.FIELD_INVALID, path)
        return Decimal(text)


def root_of(document: bytes) -> Element:
    """Parse `document`. Raises `Unreadable` (`XML_FORBIDDEN` or `XML_MALFORMED`)."""
    try:
        root: Element = fromstring(document, forbid_dtd=True)
    except DefusedXmlException:
        reason = Reason.XML_FORBIDDEN
    except (ParseError, LookupError, ValueError):
        # LookupError: an encoding that does not exist; ValueError: one that expat cannot take.
        reason = Reason.XML_MALFORMED
    else:
        return root
    raise Unreadable(reason)
