"""Why somebody may not have something, each with a code of a closed list.

``gpu_not_allowed``, ``image_not_allowed``, ``custom_image_not_allowed``, ``gpu_quota``, ``server_quota``,
``pool_quota``, ``namespace_quota``, ``cpu_not_allowed``, ``memory_not_allowed``, ``run_time_not_allowed``,
``policy_unreadable``: programs, metrics and the form know them. The sentences are for people, and name no servers but
their own.
"""

from __future__ import annotations

from collections.abc import Collection

from gpuspawner.core.errors import Problem
from gpuspawner.core.text.i18n import gettext, ngettext
from gpuspawner.core.text.quoting import format_list, sanitize_name
from gpuspawner.core.text.wording import join_sentences

Denial = Problem

GPU_NOT_ALLOWED = "gpu_not_allowed"
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
"""Servers that a sentence names."""


def explain_usage_unknown() -> str:
    """Return that nobody can tell what is in use."""
    return gettext("It is not known at the moment how many GPUs are in use. Try again in a minute.")


def explain_groups_unknown() -> str:
    """Return that nobody can tell which groups a person is in."""
    return gettext(
        "What you may start depends on your groups, and they could not be read. Log in again, or ask the hub's admins."
    )


def explain_not_allowed(gpu: str) -> str:
    """Return that the person may not use a GPU type.

    :param gpu: display name of the type; empty for all types.
    """
    if gpu:
        return gettext("{name} is not among the GPUs that you may use.", name=gpu)
    return gettext("You may not use GPUs.")


def explain_per_server_limit(most: int, *, gpu: str = "") -> str:
    """Return how many GPUs one server of a person may have.

    :param gpu: name of the type that this holds for, empty for all of them; so everywhere here.
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
    """Return how many GPUs a person may have at a time, and how many of them their other servers hold.

    :param held_by: names of these servers, empty for the default one; so everywhere here.
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
    """Return how many servers with a GPU a person may have at a time, and which others there are."""
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
    """Return how many GPUs a group's people may have together, and how many of them are in use."""
    limit = ngettext(
        "{pool}: {number} GPU for all members together.",
        "{pool}: {number} GPUs for all members together.",
        number=most,
        pool=pool,
    )
    taken = ngettext("{number} is in use.", "{number} are in use.", number=used) if used else ""
    return join_sentences(limit, taken)


def explain_namespace_quota(remaining: int) -> str:
    """Return how many GPUs the quota of the namespace leaves."""
    if remaining == 0:
        return gettext("The cluster's quota leaves no GPU for one more server.")
    return ngettext(
        "The cluster's quota leaves {number} GPU for one more server.",
        "The cluster's quota leaves {number} GPUs for one more server.",
        number=remaining,
    )


def _list_servers(names: Collection[str]) -> str:
    said = [
        gettext("your server {name}", name=sanitize_name(name)) if name else gettext("your default server")
        for name in names
    ]
    return format_list(said, max_items=_MAX_SERVERS) if said else gettext("your other servers")


def _suggest_stopping(names: Collection[str]) -> str:
    return gettext("Stop it first.") if len(names) == 1 else gettext("Stop one of them first.")
