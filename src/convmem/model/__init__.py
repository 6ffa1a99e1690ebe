"""The language model: behind an endpoint or inside this process, and the cache of what it said. Knows no document."""

from convmem.model.cache import Cache, CacheInfo
from convmem.model.connect import connect, endpoints
from convmem.model.download import find as find_local
from convmem.model.embedded import Embedded
from convmem.model.endpoint import Endpoint
from convmem.model.experience import Experience
from convmem.model.places import cache_directory, calls_file, data_directory, expand
from convmem.model.pool import Pool
from convmem.model.reply import read_json, repair_json
from convmem.model.simulated import SimulatedReader

__all__ = [
    "Cache",
    "CacheInfo",
    "Embedded",
    "Endpoint",
    "Experience",
    "Pool",
    "SimulatedReader",
    "cache_directory",
    "calls_file",
    "connect",
    "data_directory",
    "endpoints",
    "expand",
    "find_local",
    "read_json",
    "repair_json",
]
