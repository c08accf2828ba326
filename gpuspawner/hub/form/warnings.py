"""Warns admins about problems of GPU nodes, presets and policy.

The admins' form shows all warnings. The hub also logs new warnings. It searches for them after it has built a form or
begun a start, so that users do not wait for the search. The hub caches warnings until the nodes or settings change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from gpuspawner.core.cluster.model import Node, Toleration
from gpuspawner.core.text.i18n import ENGLISH, use_language
from gpuspawner.core.warnings.nodes import AdminWarning, find_node_warnings
from gpuspawner.core.warnings.presets_and_policy import (
    find_dropped_gpu_warnings,
    find_policy_warnings,
    find_preset_warnings,
)
from gpuspawner.core.warnings.wording import WarningsView, build_warnings_view
from gpuspawner.hub.config.offer import Offer
from gpuspawner.settings import Settings

_MAX_SCOPES = 32
"""Maximum number of entries in each cache; beyond the maximum, the oldest entry is removed.

A cache has one entry for each :class:`WarningScope`, because groups can have different settings."""

LoggedWarning = tuple[str, str]
"""The text of a warning, and the name of the node, preset or setting that the warning is about."""

_T = TypeVar("_T")

WarningLogger = logging.Logger | logging.LoggerAdapter[Any]


class WarningScope(NamedTuple):
    """The settings and tolerations that determine which warnings apply.

    :param settings: the user's settings.
    :param tolerations: KubeSpawner's trait ``tolerations``. Every server has these; its GPU type may add others.
    """

    settings: Settings
    tolerations: tuple[Toleration, ...]


class _LoggedFor(NamedTuple):
    """The node and the scope of a logged warning.

    The hub may log the warning again after the node has changed, or after a search without this warning.

    :param node: the node as it was when the warning was logged; None if the warning is not about a node.
    :param scope: the settings and tolerations; the settings alone if the warning is about a preset or a setting.
    """

    node: Node | None
    scope: WarningScope | Settings


class AdminWarnings:
    """Finds and logs warnings for admins; the hub has one object of this class.

    :param soon_s: seconds from a call of :meth:`schedule_log` until the hub searches for new warnings to log.
    :param pause_s: minimum number of seconds from one search to the next.
    """

    def __init__(self, *, soon_s: float = 1.0, pause_s: float = 60.0) -> None:
        self._soon_s = soon_s
        self._pause_s = pause_s
        self._nodes: tuple[Node, ...] | None = None
        self._found: dict[WarningScope, tuple[AdminWarning, ...]] = {}
        self._scheduled: dict[WarningScope, tuple[Node, ...]] = {}
        self._logged: dict[LoggedWarning, _LoggedFor] = {}
        self._waiting: dict[WarningScope, Offer] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0

    def find_warnings(self, offer: Offer, viewpoint: WarningScope) -> tuple[AdminWarning, ...]:
        """Return the warnings for admins about settings and nodes; empty if the hub could not read the nodes.

        :param viewpoint: the settings and tolerations of the user who opens the form.
        """
        nodes = offer.inventory.nodes
        if nodes is not self._nodes:
            self._nodes, self._found = nodes, {}
        if nodes is None:
            return ()
        if viewpoint not in self._found:
            settings, tolerations = viewpoint
            with use_language(ENGLISH):  # warnings are in English, because the hub's log shows the same text
                presets = find_preset_warnings(settings.configured.presets, offer.catalog)
                named = find_policy_warnings(settings.configured.policy, offer.catalog)
                dropped = find_dropped_gpu_warnings(offer.catalog)
                found = find_node_warnings(nodes, offer.catalog, table=settings.table, tolerations=tolerations)
            _remember(self._found, viewpoint, value=(*presets, *named, *dropped, *found))
        return self._found[viewpoint]

    def build_view(self, offer: Offer, viewpoint: WarningScope) -> WarningsView | None:
        """Return the warnings as the admins' form shows them, in English as in the hub's log; None without warnings.

        :param viewpoint: the settings and tolerations of the user whose form it is.
        """
        with use_language(ENGLISH):
            return build_warnings_view(self.find_warnings(offer, viewpoint))

    def schedule_log(self, offer: Offer, viewpoint: WarningScope, *, log: WarningLogger) -> None:
        """Schedule a search that logs new warnings.

        Do nothing if the hub could not read the nodes, or if they have not changed since the last call with the same
        ``viewpoint``.
        """
        nodes = offer.inventory.nodes
        if nodes is None or self._scheduled.get(viewpoint) is nodes:
            return
        _remember(self._scheduled, viewpoint, value=nodes)
        _remember(self._waiting, viewpoint, value=offer)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            due = max(loop.time() + self._soon_s, self._not_before)
            self._timer = loop.call_at(due, self._log_all, log)

    def _log_all(self, log: WarningLogger) -> None:
        self._timer = None
        self._not_before = asyncio.get_running_loop().time() + self._pause_s
        waiting, self._waiting = self._waiting, {}
        for viewpoint, offer in waiting.items():
            nodes = {node.name: node for node in offer.inventory.nodes or ()}
            self._log_new(viewpoint, self.find_warnings(offer, viewpoint), nodes=nodes, log=log)

    def _log_new(
        self, viewpoint: WarningScope, found: tuple[AdminWarning, ...], *, nodes: Mapping[str, Node], log: WarningLogger
    ) -> None:
        """Log the warnings in ``found``, except those that the hub has already logged (see :class:`_LoggedFor`).

        If none of the logged warnings applies any more, log that everything works again.
        """
        current = {(flag.message, name) for flag in found for name in flag.names}
        had_logged, self._logged = (
            bool(self._logged),
            {
                key: entry
                for key, entry in self._logged.items()
                if (entry.node is None or nodes.get(key[1]) is entry.node)
                and (entry.scope not in (viewpoint, viewpoint.settings) or key in current)
            },
        )
        new = [unlogged for flag in found if (unlogged := self._select_unlogged(flag)).names]
        with use_language(ENGLISH):
            view = build_warnings_view(new)
        if view is not None:
            # Do not zip strictly: view.flags contains only the first warnings; view.more says how many are left out.
            for flag, (subject, sentence) in zip(new, view.flags, strict=False):
                log.warning("%s%s: %s", "GPUs on " if flag.nodes else "", subject, sentence)
            if view.more:
                log.warning("GPUs: %s", view.more)
        for flag in new:
            self._logged |= {(flag.message, name): _LoggedFor(nodes[name], viewpoint) for name in flag.nodes}
            self._logged |= {(flag.message, slug): _LoggedFor(None, viewpoint.settings) for slug in flag.presets}
            self._logged |= {(flag.message, path): _LoggedFor(None, viewpoint.settings) for path in flag.settings}
        if had_logged and not self._logged:
            log.warning("GPUs and presets: All are offered and work again.")

    def _select_unlogged(self, flag: AdminWarning) -> AdminWarning:
        nodes, presets, paths = (
            tuple(name for name in names if (flag.message, name) not in self._logged)
            for names in (flag.nodes, flag.presets, flag.settings)
        )
        return replace(flag, nodes=nodes, presets=presets, settings=paths)


def _remember(known: dict[WarningScope, _T], viewpoint: WarningScope, *, value: _T) -> None:
    known[viewpoint] = value
    if len(known) > _MAX_SCOPES:
        del known[next(iter(known))]
