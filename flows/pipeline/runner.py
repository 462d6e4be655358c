"""Chooses where this machine's stages run their shards."""

from schemas.settings import Resources
from tasks.store.shard_runner import LOCAL, ShardRunner


def choose_runner(resources: Resources) -> ShardRunner:
    """Returns the runner that the resources name.

    Raises:
        MissingDependency: Its library is not installed.
    """
    if resources.runner == "processes":
        return LOCAL
    from flows.pipeline.ray_runner import RayShards

    return RayShards(gpus=1 if resources.device == "cuda" else 0)
