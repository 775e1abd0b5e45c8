"""What a proxy does instead of passing a request on: each function returns a fault for `Proxy.rule`."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import cache, reduce

from tests.real.proxy import Exchange, Fault, Request

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def refuse() -> Fault:
    """Close the connection without an answer; the real server never sees the request."""
    return Exchange.close


def lose() -> Fault:
    """Let the real server do it, but close the connection without an answer."""

    def fault(exchange: Exchange) -> None:
        with exchange.forwarded() as answer:
            answer.read()
        exchange.close()

    return fault


def hang() -> Fault:
    """Never answer, until the client gives up."""
    return Exchange.wait_for_client_to_leave


def cut(after: int | None = None) -> Fault:
    """Let the real server do it, and cut its answer off in mid-body: `after` bytes, by default in the middle."""

    def fault(exchange: Exchange) -> None:
        with exchange.forwarded() as answer:
            body = answer.read(decode_content=False)
        kept = len(body) // 2 if after is None else after
        exchange.answer(answer.status, body[:kept], _kept(answer.headers), length=max(len(body), kept + 1))
        exchange.close()

    return fault


def drip_headers() -> Fault:
    """Let the real server do it, and answer with a header that comes byte by byte and never ends."""

    def fault(exchange: Exchange) -> None:
        with exchange.forwarded() as answer:
            answer.read()
        exchange.drip(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x")

    return fault


def bomb(unpacked: int) -> Fault:
    """Answer with so many bytes, compressed to about a thousandth; the real server never sees the request."""

    def fault(exchange: Exchange) -> None:
        exchange.answer(200, gzipped_zeros(unpacked), {"Content-Encoding": "gzip"})

    return fault


@cache
def gzipped_zeros(count: int) -> bytes:
    """So many zeros, whole MiB of them, in gzip's form; made of one packed MiB, which takes neither time nor memory.

    Source: RFC 1952; zlib, deflate(Z_FULL_FLUSH): what follows rests on nothing before.
    """
    pieces, piece = count >> 20, bytes(1 << 20)
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    block = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = reduce(lambda value, _: zlib.crc32(piece, value), range(pieces), 0)
    head, end = b"\x1f\x8b\x08\0\0\0\0\0\0\xff", b"\x03\x00"
    return head + block * pieces + end + struct.pack("<LL", checksum, count % 2**32)


def answer(
    status: int, body: bytes | None = None, *, retry_after: int | None = None, headers: Mapping[str, str] | None = None
) -> Fault:
    """Answer this without asking the real server; without a `body` it is a Status as Kubernetes says it."""
    said = json.dumps(_status(status)).encode() if body is None else body
    every = {**(headers or {}), **({"Retry-After": str(retry_after)} if retry_after is not None else {})}

    def fault(exchange: Exchange) -> None:
        exchange.answer(status, said, every)

    return fault


def wrong_json() -> Fault:
    """Answer success with something that is no JSON."""
    return answer(200, b'{"kind": "PodList", "items": [{"metadata": ')


def before(call: Callable[[Request], object], *, forward: bool = True) -> Fault:
    """Call first, then pass the request on; without `forward` the connection closes unseen by the server."""

    def fault(exchange: Exchange) -> None:
        call(exchange.request)
        if forward:
            exchange.pass_on()

    return fault


def rewritten(pattern: str, by: str) -> Fault:
    """Pass the request on with another target."""

    def fault(exchange: Exchange) -> None:
        exchange.rewrite(pattern, by)
        exchange.pass_on()

    return fault


def after(call: Callable[[Request], object]) -> Fault:
    """Let the real server do it, call, then send its answer back."""

    def fault(exchange: Exchange) -> None:
        with exchange.forwarded() as answer:
            body = answer.read(decode_content=False)
        call(exchange.request)
        exchange.answer(answer.status, body, _kept(answer.headers))

    return fault


def dated(date: str) -> Fault:
    """Pass an answer on with another Date."""

    def fault(exchange: Exchange) -> None:
        with exchange.forwarded() as answer:
            body = answer.read()
        exchange.answer(answer.status, body, {"Content-Type": answer.headers["Content-Type"], "Date": date})

    return fault


def replaced(old: bytes, new: bytes) -> Fault:
    """Let the real server do it, and put `new` for `old` in its answer."""

    def fault(exchange: Exchange) -> None:
        with exchange.forwarded() as answer:
            body = answer.read()
        exchange.answer(answer.status, body.replace(old, new), {"Content-Type": answer.headers["Content-Type"]})

    return fault


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that say what the body is."""
    return {name: value for name, value in headers.items() if name.lower() in ("content-type", "content-encoding")}


def _status(status: int) -> dict[str, object]:
    said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": status}
    return {**said, "reason": _REASONS.get(status, ""), "message": f"made by a test: {status}"}
