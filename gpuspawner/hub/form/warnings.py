"""Tells admins what is the matter with GPUs and presets: in the form when one looks, in the hub's log when it changes.

It is worked out once for the same nodes and settings, and for the log never while somebody waits for a form.
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
from gpuspawner.core.warnings.presets_and_policy import find_policy_warnings, find_preset_warnings
from gpuspawner.core.warnings.wording import build_warnings_view
from gpuspawner.hub.config.offer import Offer, ParsedSettings

_MAX_SCOPES = 32
"""Different ones that are remembered; group overrides may give some users other settings than the rest."""

LoggedWarning = tuple[str, str]
"""A sentence, and the name of the node, preset or setting it was said of."""

_T = TypeVar("_T")

WarningLogger = logging.Logger | logging.LoggerAdapter[Any]


class WarningScope(NamedTuple):
    """What makes nodes all right for some users and not for others.

    :param tolerations: what every server tolerates besides the GPU types' own (KubeSpawner's).
    """

    settings: ParsedSettings
    tolerations: tuple[Toleration, ...]


class _LoggedFor(NamedTuple):
    """Of what, and for whom, something was said.

    :param node: as it was then; None for a preset or a setting.
    :param to: for a preset only the settings, as the same is to say whatever is tolerated.
    """

    node: Node | None
    to: WarningScope | ParsedSettings


class AdminWarnings:
    """One for the hub's process.

    :param soon_s: seconds until a change is told in the log, so that no form waits for it.
    :param pause_s: seconds between two looks for the log at least.
    """

    def __init__(self, *, soon_s: float = 1.0, pause_s: float = 60.0) -> None:
        self._soon_s = soon_s
        self._pause_s = pause_s
        self._nodes: tuple[Node, ...] | None = None
        self._found: dict[WarningScope, tuple[AdminWarning, ...]] = {}
        self._seen: dict[WarningScope, tuple[Node, ...]] = {}
        self._told: dict[LoggedWarning, _LoggedFor] = {}
        self._waiting: dict[WarningScope, Offer] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0

    def find_warnings(self, offer: Offer, viewpoint: WarningScope) -> tuple[AdminWarning, ...]:
        """Return what is the matter; nothing where no node can be read."""
        nodes = offer.inventory.nodes
        if nodes is not self._nodes:
            self._nodes, self._found = nodes, {}
        if nodes is None:
            return ()
        if viewpoint not in self._found:
            settings, tolerations = viewpoint
            with use_language(ENGLISH):  # as the hub's log, where it is said again
                presets = find_preset_warnings(settings.configured.presets, offer.catalogue)
                named = find_policy_warnings(settings.configured.policy, offer.catalogue)
                found = find_node_warnings(nodes, offer.catalogue, table=settings.table, tolerations=tolerations)
            _remember(self._found, viewpoint, value=(*presets, *named, *found))
        return self._found[viewpoint]

    def schedule_log(self, offer: Offer, viewpoint: WarningScope, *, log: WarningLogger) -> None:
        """Have what is new told in the log, in a moment."""
        nodes = offer.inventory.nodes
        if nodes is None or self._seen.get(viewpoint) is nodes:
            return
        _remember(self._seen, viewpoint, value=nodes)
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
        """Say of each node what has not been said of it as it is now, of each preset; once that all is well again."""
        standing = {(flag.message, name) for flag in found for name in flag.names}
        was_told, self._told = (
            bool(self._told),
            {
                said: telling
                for said, telling in self._told.items()
                if (telling.node is None or nodes.get(said[1]) is telling.node)
                and (telling.to not in (viewpoint, viewpoint.settings) or said in standing)
            },
        )
        new = [unsaid for flag in found if (unsaid := self._select_unlogged(flag)).names]
        with use_language(ENGLISH):
            view = build_warnings_view(new)
        if view is not None:
            for flag, (subject, sentence) in zip(new, view.flags, strict=False):  # there may be more than are viewed
                log.warning("%s%s: %s", "GPUs on " if flag.nodes else "", subject, sentence)
            if view.more:
                log.warning("GPUs: %s", view.more)
        for flag in new:
            self._told |= {(flag.message, name): _LoggedFor(nodes[name], viewpoint) for name in flag.nodes}
            self._told |= {(flag.message, slug): _LoggedFor(None, viewpoint.settings) for slug in flag.presets}
            self._told |= {(flag.message, path): _LoggedFor(None, viewpoint.settings) for path in flag.settings}
        if was_told and not self._told:
            log.warning("GPUs and presets: All are offered and work again.")

    def _select_unlogged(self, flag: AdminWarning) -> AdminWarning:
        """Return a flag of those of its nodes, presets or settings of which it was not said."""
        nodes, presets, paths = (
            tuple(name for name in names if (flag.message, name) not in self._told)
            for names in (flag.nodes, flag.presets, flag.settings)
        )
        return replace(flag, nodes=nodes, presets=presets, settings=paths)


def _remember(known: dict[WarningScope, _T], viewpoint: WarningScope, *, value: _T) -> None:
    """Keep a value, and forget the oldest where there are too many."""
    known[viewpoint] = value
    if len(known) > _MAX_SCOPES:
        del known[next(iter(known))]
