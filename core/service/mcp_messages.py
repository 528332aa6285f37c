"""JSON messages, one a line: reading them from standard input, and taking them apart and together without the json module.

Part of the proxy's process: built-ins only at the top.
"""

import sys
from _json import encode_basestring_ascii, make_scanner

if sys.platform == "win32":
    import nt as system
else:
    import posix as system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_LINE = 16 * 1024 * 1024


class _JsonOptions:
    """What the C scanner of the json module reads; importing that module costs as much as all of this one."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: "dict[str, str]" = {}  # noqa: RUF012


_scan = make_scanner(_JsonOptions())  # type: ignore[arg-type]


class TooLong:
    """A line that was thrown away, with its first and last bytes."""

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail

    def guess_id(self) -> "object":
        """The id the request most likely has: clients write it before or after the long part."""
        for piece in (self.tail.rpartition(b'"id":')[2], self.head.partition(b'"id":')[2].partition(b"}")[0]):
            value = piece.strip().rstrip(b"}").partition(b",")[0].strip()
            try:
                found = parse(value)
            except ValueError:
                continue
            if isinstance(found, (str, int)):
                return found
        return None


class Lines:
    """Standard input, line by line."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._ended = False

    def next(self) -> "bytes | TooLong | None":
        """The next line without its end, None at the end of input."""
        head = b""
        while True:
            stop = self._buffer.find(b"\n", self._searched)
            if stop >= 0:
                line = bytes(self._buffer[:stop])
                del self._buffer[: stop + 1]
                self._searched = 0
                if head or stop > MAX_LINE:
                    return TooLong(head or line[:400], line[-400:])
                return line
            self._searched = len(self._buffer)
            if self._ended:
                line, self._buffer = bytes(self._buffer), bytearray()
                return line or None
            if len(self._buffer) > MAX_LINE:
                head = head or bytes(self._buffer[:400])
                del self._buffer[:-400]
                self._searched = len(self._buffer)
            try:
                part = system.read(0, 1 << 18)
            except OSError:
                part = b""
            self._ended = not part
            self._buffer += part


def parse(line: bytes) -> "Any":
    """The JSON value in `line`. Raises ValueError for anything else, also for text that is not UTF-8."""
    text = line.decode("utf-8").strip(" \t\r\n\ufeff")
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except (StopIteration, SystemError, RecursionError, ValueError):
        # Without its module the scanner cannot even raise the error it means.
        pass
    from json import loads

    try:
        return loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def to_json(value: object) -> str:
    """JSON for a value; the ones that occur in every answer without importing json."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, int):
        return str(int(value))
    from json import dumps

    return dumps(value, separators=(",", ":"))


def whole_characters(line: bytes) -> bytes:
    """The message with half characters (`\\ud83d` alone, from text cut in the middle) replaced: no parser takes them."""
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    from json import dumps, loads

    return dumps(loads(line), ensure_ascii=False).encode("utf-8", "replace")


def path_of(uri: object) -> str:
    """The path of a `file:` URI; empty for any other."""
    if not isinstance(uri, str) or not uri.lower().startswith("file://"):
        return ""
    host, slash, rest = uri[7:].partition("/")
    if host.lower() not in ("", "localhost") or not slash:
        return ""
    first, *parts = f"/{rest}".encode("utf-8", "replace").split(b"%")
    path = first
    for part in parts:
        try:
            path += bytes.fromhex(part[:2].decode("ascii")) + part[2:]
        except ValueError:
            path += b"%" + part
    text = path.decode("utf-8", "surrogateescape").replace("\0", "")
    # file:///C:/work
    return text[1:] if sys.platform == "win32" and text[2:3] == ":" else text
