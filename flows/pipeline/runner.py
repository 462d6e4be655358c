"""Where this machine's stages run their shards."""

from flows.pipeline.ray_runner import RayShards
from schemas.settings import Resources
from tasks.store.shard_runner import LOCAL, ShardRunner


def choose_runner(resources: Resources) -> ShardRunner:
    """The runner that the resources name.

    Raises:
        MissingDependency: Its library is not installed.
    """
    if resources.runner == "processes":
        return LOCAL
    return RayShards(gpus=1 if resources.device == "cuda" else 0)
