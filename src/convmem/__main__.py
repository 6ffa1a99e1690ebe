"""``python -m convmem`` is the command ``convmem``."""

from convmem.cli.main import main

main()
