"""The codes and texts that say why the policy or a ResourceQuota denies a choice.

The codes are public: REST clients, metrics and the form use them. Users read the texts, so a text names no servers of
other users.
"""

from __future__ import annotations

from collections.abc import Collection

from gpuspawner.core.errors import Problem
from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.wording import format_list, join_sentences, sanitize_name

Denial = Problem

GPU_NOT_ALLOWED = "gpu_not_allowed"
IMAGE_NOT_ALLOWED = "image_not_allowed"
PRESET_NOT_ALLOWED = "preset_not_allowed"
CUSTOM_IMAGE_NOT_ALLOWED = "custom_image_not_allowed"
GPU_QUOTA = "gpu_quota"
SERVER_QUOTA = "server_quota"
POOL_QUOTA = "pool_quota"
NAMESPACE_QUOTA = "namespace_quota"
CPU_NOT_ALLOWED = "cpu_not_allowed"
MEMORY_NOT_ALLOWED = "memory_not_allowed"
RUN_TIME_NOT_ALLOWED = "run_time_not_allowed"
POLICY_UNREADABLE = "policy_unreadable"

_MAX_SERVERS = 3
"""Maximum number of servers that one denial text names."""


def explain_usage_unknown() -> str:
    """Return the text of the denial of a choice while the hub does not know how many GPUs are in use."""
    return gettext("It is not known at the moment how many GPUs are in use. Try again in a minute.")


def explain_groups_unknown() -> str:
    """Return the text of the denial of a choice while the hub cannot read the user's groups."""
    return gettext(
        "What you may start depends on your groups, and they could not be read. Log in again, or ask the hub's admins."
    )


def explain_image_not_allowed(image: str) -> str:
    """Return a sentence that the user may not have an image, which is named by its name or reference."""
    return gettext("You don't have access to the image {name}.", name=image)


def explain_not_allowed(gpu: str) -> str:
    """Return the text for a GPU type that the user may not use.

    :param gpu: display name of the type; empty for all types.
    """
    if gpu:
        return gettext("You don't have access to {name}.", name=gpu)
    return gettext("You don't have access to GPUs.")


def explain_per_server_limit(most: int, *, gpu: str = "") -> str:
    """Return the text for a limit on the GPUs in one server.

    :param gpu: display name of the limited type; empty for all types.
    """
    if most == 0:
        return explain_not_allowed(gpu)
    if gpu:
        return ngettext(
            "You may have {number} GPU ({gpu}) in one server.",
            "You may have {number} GPUs ({gpu}) in one server.",
            number=most,
            gpu=gpu,
        )
    return ngettext(
        "You may have {number} GPU in one server.", "You may have {number} GPUs in one server.", number=most
    )


def explain_total_limit(most: int, *, used: int, held_by: Collection[str] = (), gpu: str = "") -> str:
    """Return the text for a limit on the GPUs in all servers of the user.

    :param used: GPUs that the user's other servers use.
    :param held_by: names of these servers; the default server's name is empty.
    :param gpu: display name of the limited type; empty for all types.
    """
    if most == 0:
        return explain_not_allowed(gpu)
    if gpu:
        limit = ngettext(
            "You may have {number} GPU ({gpu}) at a time.",
            "You may have {number} GPUs ({gpu}) at a time.",
            number=most,
            gpu=gpu,
        )
    else:
        limit = ngettext("You may have {number} GPU at a time.", "You may have {number} GPUs at a time.", number=most)
    if not used:
        return limit
    having = ngettext(
        "{number} is in use by {servers}.",
        "{number} are in use by {servers}.",
        number=used,
        servers=_list_servers(held_by),
    )
    return join_sentences(limit, having, _suggest_stopping(held_by) if used >= most else "")


def explain_server_limit(most: int, *, held_by: Collection[str]) -> str:
    """Return the text for a limit on the user's servers with a GPU.

    :param held_by: names of the user's other servers with a GPU; the default server's name is empty.
    """
    if most == 0:
        return explain_not_allowed("")
    limit = ngettext(
        "You may have {number} server with a GPU at a time.",
        "You may have {number} servers with a GPU at a time.",
        number=most,
    )
    if not held_by:
        return limit
    having = ngettext(
        "{number} of your other servers has one: {servers}.",
        "{number} of your other servers have one: {servers}.",
        number=len(held_by),
        servers=_list_servers(held_by),
    )
    return join_sentences(limit, having, _suggest_stopping(held_by) if len(held_by) >= most else "")


def explain_pool_limit(most: int, *, used: int, pool: str) -> str:
    """Return the text for the limit of a GPU pool.

    :param most: GPUs that all members of the pool's groups may have together.
    :param used: GPUs that the members' servers use.
    :param pool: display name of the pool.
    """
    limit = ngettext(
        "{pool}: {number} GPU for all members together.",
        "{pool}: {number} GPUs for all members together.",
        number=most,
        pool=pool,
    )
    taken = ngettext("{number} is in use.", "{number} are in use.", number=used) if used else ""
    return join_sentences(limit, taken)


def explain_namespace_quota(remaining: int) -> str:
    """Return the text for a ResourceQuota that limits GPUs.

    :param remaining: GPUs that the quota leaves for one more server.
    """
    if remaining == 0:
        return gettext("The cluster's quota leaves no GPU for one more server.")
    return ngettext(
        "The cluster's quota leaves {number} GPU for one more server.",
        "The cluster's quota leaves {number} GPUs for one more server.",
        number=remaining,
    )


def _list_servers(names: Collection[str]) -> str:
    texts = [
        gettext("your server {name}", name=sanitize_name(name)) if name else gettext("your default server")
        for name in names
    ]
    return format_list(texts, max_items=_MAX_SERVERS) if texts else gettext("your other servers")


def _suggest_stopping(names: Collection[str]) -> str:
    return gettext("Stop it first.") if len(names) == 1 else gettext("Stop one of them first.")
