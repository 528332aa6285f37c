"""Where the daemon of one CEMS_HOME listens: a file of three lines (address, token, hook deadline in
seconds).

The hook process reads it too, so only built-ins are imported; `listening` writes it.
"""

UNIX = "unix"
TCP = "tcp"
LOOPBACK = "127.0.0.1"
DEFAULT_HOOK_DEADLINE = 1.0
SHORTEST_HOOK_DEADLINE = 0.05
LONGEST_HOOK_DEADLINE = 10.0
MAX_ENDPOINT_BYTES = 1024


class Endpoint:
    """One listening daemon. `path` is a socket's for `unix`; `port` is one of the loopback address for `tcp`.

    `token` goes into the `Authorization: Bearer` header, which the daemon demands on TCP.
    """

    __slots__ = ("deadline", "kind", "path", "port", "token")

    def __init__(
        self,
        kind: str,
        path: str = "",
        port: int = 0,
        token: str = "",
        deadline: float = DEFAULT_HOOK_DEADLINE,
    ) -> None:
        self.kind = kind
        self.path = path
        self.port = port
        self.token = token
        self.deadline = deadline

    @property
    def address(self) -> str:
        return f"{UNIX}:{self.path}" if self.kind == UNIX else f"{TCP}:{LOOPBACK}:{self.port}"

    def encode(self) -> bytes:
        """The file's bytes; `parse_endpoint` reads them back."""
        return f"{self.address}\n{self.token}\n{self.deadline:g}\n".encode("utf-8", "surrogateescape")


def bounded_deadline(text: "str | bytes", otherwise: float) -> float:
    """Seconds in `text`, kept between 0.05 and 10; `otherwise` when it is no number."""
    try:
        seconds = float(text)
    except ValueError:
        return otherwise
    if seconds != seconds:
        return otherwise
    return min(max(seconds, SHORTEST_HOOK_DEADLINE), LONGEST_HOOK_DEADLINE)


def parse_endpoint(raw: bytes) -> "Endpoint | None":
    """The endpoint in a file's bytes, or None for anything a daemon of ours would not have written."""
    lines = raw.decode("utf-8", "surrogateescape").split("\n")
    if len(lines) < 3 or len(raw) > MAX_ENDPOINT_BYTES:
        return None
    kind, _, rest = lines[0].partition(":")
    token = lines[1]
    if not token.isalnum() or not token.isascii():
        return None
    deadline = bounded_deadline(lines[2], DEFAULT_HOOK_DEADLINE)
    if kind == UNIX and rest.startswith("/") and "\0" not in rest:
        return Endpoint(UNIX, path=rest, token=token, deadline=deadline)
    host, _, port = rest.partition(":")
    # Loopback only: whoever could write this file must not be able to send prompts to another machine.
    if kind == TCP and host == LOOPBACK and port.isdecimal() and 0 < int(port[:6]) < 65536:
        return Endpoint(TCP, port=int(port), token=token, deadline=deadline)
    return None


def read_endpoint(path: "object") -> "Endpoint | None":
    """The endpoint in the file at `path`; None when there is none or it is not readable as one."""
    try:
        with open(str(path), "rb", buffering=0) as file:  # noqa: PTH123 - pathlib would cost the hook 5 ms
            return parse_endpoint(file.read(MAX_ENDPOINT_BYTES + 1) or b"")
    except OSError:
        return None
