"""The process that a file is parsed in: what a hostile file makes a parser do ends here. ``intake`` starts it.

Standard input: the file's name as one line of JSON, then its bytes. Standard output: one object, ``{text, pages,
warnings}`` or ``{error}``.
"""

from __future__ import annotations

import json
import resource
import sys


def main(memory_bytes: int, cpu_seconds: int) -> None:
    """Parse one file within these limits."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from convmem.core import InputError
    from convmem.document.formats import extract

    name = json.loads(sys.stdin.buffer.readline())
    try:
        extracted = extract(name, sys.stdin.buffer.read())
        said = {"text": extracted.text, "pages": extracted.pages, "warnings": extracted.warnings}
    except InputError as error:
        said = {"error": str(error)}
    except (MemoryError, RecursionError):
        said = {"error": f"{name} takes too much memory to read: split it, or give its text."}
    sys.stdout.buffer.write(json.dumps(said).encode())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
