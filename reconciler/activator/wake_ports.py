"""Which ports of an idle Service wake it when somebody connects: those that its annotation names, and where it has none
all but those for metrics, which are asked day and night.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import chain

from reconciler.activator.objects import WatchedPort, WatchedService
from reconciler.decide.annotations import Key, quoted
from reconciler.messages import first_of
from reconciler.untrusted_text import one_line

_QUIET_PORTS = "*metrics*"
_NO_PORT = "none"


def is_wake_port(service: WatchedService, port: WatchedPort) -> bool:
    """Return whether traffic on `port` wakes `service`."""
    named = _named(service)
    return not fnmatchcase(port.label, _QUIET_PORTS) if named is None else not named.isdisjoint(_words_of(port))


def wake_ports_problem(service: WatchedService) -> str:
    """Return which of the ports that are to wake `service` it does not have, "" where it has all."""
    known = {_NO_PORT, *chain.from_iterable(map(_words_of, service.ports))}
    unknown = [quoted(one_line(word)) for word in sorted((_named(service) or frozenset()) - known)]
    expected = f"expected names or numbers of its ports, or {_NO_PORT}"
    return f"{Key.WAKE_PORTS} is {first_of(unknown, 3)}, {expected}" if unknown else ""


def _named(service: WatchedService) -> frozenset[str] | None:
    """Return the names and numbers that its annotation has, None without the annotation."""
    named = service.annotations.get(Key.WAKE_PORTS)
    return None if named is None else frozenset(part.strip() for part in named.split(",")) - {""}


def _words_of(port: WatchedPort) -> tuple[str, str]:
    return port.label, str(port.port)
