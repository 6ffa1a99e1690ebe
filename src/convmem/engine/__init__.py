"""Where independent work is done: in this process, or on the nodes of a Ray cluster. Knows no question and no row."""

from convmem.engine.job import Engine, Job, Share
from convmem.engine.local import Local

__all__ = ["Engine", "Job", "Local", "Share"]
