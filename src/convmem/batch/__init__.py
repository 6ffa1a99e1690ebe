"""Many questions over many documents: a line each in, a row each out, and nothing asked twice."""

from convmem.batch.asking import Asking, Task
from convmem.batch.cost import Cost, estimate
from convmem.batch.lines import Line, read
from convmem.batch.results import Results
from convmem.batch.tasks import tasks

__all__ = ["Asking", "Cost", "Line", "Results", "Task", "estimate", "read", "tasks"]
