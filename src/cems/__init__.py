"""CEMS: a memory for coding agents, kept on the person's own machine."""

import sys as _sys

__version__ = "0.1.0"

if _sys.platform == "win32":
    # A Windows checkout has no symbolic links to core/, adapters/ and installer/: look for them at the root.
    __path__.append(__file__.rsplit("src", 1)[0].rstrip("\\/"))
