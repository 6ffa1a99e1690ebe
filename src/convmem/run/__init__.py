"""One question's work: everything that a method does goes through a Run."""

from convmem.run.ask import Ask, Reply
from convmem.run.clock import simulate
from convmem.run.export import export
from convmem.run.run import Run
from convmem.run.settings import RunSettings

__all__ = ["Ask", "Reply", "Run", "RunSettings", "export", "simulate"]
