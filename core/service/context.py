"""What a caller says about itself (working folder, version, agent's variables), as one HTTP header value.

Written by the hook process too, so: built-ins only. The form is the hex of NUL-separated `key=value` bytes.
"""

HEADER = "X-Cems-Context"
BOUND = "bound_project"
"""The project that a caller's token is for. The daemon's own word: from a caller it counts for nothing."""
OWNER = "context_pid"
"""Key: the value of CONTEXT_PID, where that process has a file of ours."""
TO_FILE = b"file"
"""The value of the answer's header `X-Cems-To` for an answer that goes into that file and not to standard output."""


def encode(pairs: "dict[str, str]") -> str:
    """Hex text of the pairs. Undecodable bytes survive as surrogates; NUL cannot occur in an environment or a path."""
    joined = "\0".join(f"{key}={value}" for key, value in pairs.items())
    return joined.encode("utf-8", "surrogateescape").hex()


def decode(text: str) -> "dict[str, str]":
    """The pairs of `encode`; raises ValueError on anything that is not hex."""
    if not text:
        return {}
    parts = bytes.fromhex(text).decode("utf-8", "surrogateescape").split("\0")
    return dict(part.split("=", 1) for part in parts if "=" in part)
