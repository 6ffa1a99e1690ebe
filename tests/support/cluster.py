"""A Ray cluster of small nodes on this machine, on which a busy machine has time to start."""

from __future__ import annotations

import os
from typing import Any

MEMORY = 200 << 20

os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS", "0")


class Nodes:
    """``with Nodes(2) as nodes``: connected to a cluster whose nodes have one CPU each; ``nodes.kill()`` ends the last.

    The first node is the driver's.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> Nodes:
        import ray
        from ray.cluster_utils import Cluster

        options: dict[str, Any] = {"num_cpus": 1, "object_store_memory": MEMORY}
        quick = {
            "health_check_initial_delay_ms": 1000,
            "health_check_period_ms": 1000,
            "health_check_failure_threshold": 3,
        }
        self.cluster = Cluster(
            initialize_head=True, head_node_args={**options, "include_dashboard": False, "_system_config": quick}
        )
        self.others = [self.cluster.add_node(**options) for _ in range(self.count - 1)]
        ray.init(address=self.cluster.address, log_to_driver=False)
        return self

    def kill(self) -> None:
        """End the last node at once, as a loss of power would."""
        self.cluster.remove_node(self.others.pop(), allow_graceful=False)

    def __exit__(self, *_: object) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()
