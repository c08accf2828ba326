"""What an admin says about a queue of Kueue."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from gpuspawner.settings.values import Slug, StrictModel

QueueName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")]
"""A name that is the value of a label as well."""


class QueueSetting(StrictModel):
    """A queue of Kueue that servers with a GPU go through."""

    local_queue: Annotated[QueueName, Field(description="Name of a LocalQueue in the namespace of the servers.")]
    priority_class: QueueName | None = Field(
        default=None, description="Name of a WorkloadPriorityClass of the cluster."
    )
    timeout: Annotated[int, Field(ge=1, le=7 * 24 * 3600)] | None = Field(
        default=None, description="Seconds that the hub waits for a server that is queued."
    )
    gpus: Annotated[list[Slug], Field(min_length=1)] = Field(
        default=["*"], description="GPU types whose servers are queued; * stands for all."
    )
