"""Builds the cards of KubeSpawner's profiles: what each gives with the picked choices, and whether it starts now.

KubeSpawner itself completes the profiles and builds their pods, as for a start.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jupyterhub.utils import maybe_future
from tornado import web

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.errors import Problem
from gpuspawner.core.form.policy import is_hidden_by_policy
from gpuspawner.core.form.views import ProfileOptionView, ProfileView, VerdictView
from gpuspawner.core.form.wording import describe_candidate
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.request.candidate import Candidate
from gpuspawner.core.request.options import PROFILE, UNLISTED, name_option_field
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.text.wording import join_sentences, quote
from gpuspawner.core.verdict.verdict import MAX_DATA_AGE_S, Outcome, Verdict
from gpuspawner.core.verdict.wording import format_verdict
from gpuspawner.hub.admission.profiles import (
    LoadedProfiles,
    ProfilePod,
    ProfileSupport,
    build_profile_pod,
    format_profile_name,
)
from gpuspawner.hub.config.offer import Offer, make_value_key
from gpuspawner.hub.errors import RefusedProfile
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.pod.preview import JudgedPod, judge_pod

_MAX_PROFILES = 100
"""Maximum number of profiles with a verdict. The limit saves time, because KubeSpawner builds a pod for each."""
_MAX_PODS = 2048
_LOAD_S = 10.0
"""Seconds that the form waits for a ``profile_list`` that is a function; a start waits as long as KubeSpawner does."""
_JUDGED_S = 30.0
_KEPT_S = 60.0
"""Seconds for which an open form that refreshes itself uses the last result of such a function."""
_TEMPLATE = "form.html"
_FORM_TRAITS = frozenset({"options_form", "options_from_form", "apply_user_options", "profile_list"})
"""Traits that do not tell which pod a profile gets, and whose values may differ for each spawner."""


def shows_cards(spawner: ProfileSupport) -> bool:
    """Return whether the form shows a ``profile_list`` as cards.

    If the admin has a template for KubeSpawner's form, or a subclass that loads or shows profiles in another way, the
    form stays theirs.
    """
    if not spawner.profile_list or not spawner.profile_cards:
        return False
    kind: Any = type(spawner)
    has_template = any(
        (Path(folder) / _TEMPLATE).is_file() for folder in spawner.additional_profile_form_template_paths
    )
    is_loaded_by_us = kind.load_user_options.__module__.startswith("gpuspawner.")
    is_shown_by_kubespawner = private_api.renders_profiles_as_kubespawner(spawner)
    return not (spawner.profile_form_template or has_template) and is_loaded_by_us and is_shown_by_kubespawner


async def load_profiles(spawner: ProfileSupport, *, is_refresh: bool = False) -> LoadedProfiles:
    """Return the profiles of a spawner's user.

    :param is_refresh: whether an open form refreshes itself. A function may then not be called again.
    :raises web.HTTPError: as a function raises it for the user.
    :raises Exception: as KubeSpawner does for a malformed ``profile_list``.
    """
    profiles = spawner.profile_list
    if not callable(profiles):
        loaded: LoadedProfiles = spawner.cards.complete(spawner, private_api.list_profiles(spawner, profiles))
        return loaded
    now = time.monotonic()
    if is_refresh and spawner.kept_profiles is not None and now - spawner.kept_profiles[0] < _KEPT_S:
        return spawner.kept_profiles[1]
    try:
        async with asyncio.timeout(_LOAD_S):
            loaded = _complete(spawner, await maybe_future(profiles(spawner)))
    except web.HTTPError:
        raise
    except Exception:  # log any exception: the function is the admin's
        spawner.log.exception("Cannot load the profiles of %s", private_api.get_log_name(spawner))
        return LoadedProfiles(problem=gettext("The profiles could not be loaded. Try again, or ask an admin."))
    spawner.kept_profiles = now, loaded
    return loaded


def _complete(spawner: ProfileSupport, profiles: Sequence[Mapping[str, Any]]) -> LoadedProfiles:
    completed = private_api.complete_profiles(spawner, profiles)
    return LoadedProfiles(completed, texts=tuple(map(repr, completed)))


@dataclass(slots=True, kw_only=True)
class CardRequest:
    """What the cards of a form depend on besides profiles and cluster.

    :param saved: user options of an earlier start, untrusted.
    :param typed: field name → text of a form, link or refresh.
    :param problems: why the hub refused the profile in ``typed``.
    :param picks_default: whether KubeSpawner's default profile is picked if the user has picked none.
    """

    saved: Mapping[str, object] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[Problem] = ()
    picks_default: bool = True


class ProfileCards:
    """Builds the cards of profiles; the hub's process has one object of this class, which keeps pods between forms."""

    def __init__(self) -> None:
        self._pods: OrderedDict[tuple[object, ...], _KeptPod] = OrderedDict()
        self._completed: tuple[object, LoadedProfiles] = None, LoadedProfiles()

    def complete(self, spawner: ProfileSupport, profiles: Sequence[Mapping[str, Any]]) -> LoadedProfiles:
        """Return profiles with the slugs and defaults that KubeSpawner gives them; the caller must not change them.

        :param profiles: the profiles of a ``profile_list`` that is no function, and so usually the same for all users.
        """
        key = (type(spawner), make_value_key(profiles))
        if self._completed[0] != key:
            self._completed = key, _complete(spawner, profiles)
        return self._completed[1]

    async def build(
        self,
        spawner: ProfileSupport,
        loaded: LoadedProfiles,
        *,
        offer: Offer,
        allowance: Allowance,
        request: CardRequest,
    ) -> tuple[ProfileView, ...]:
        """Return the cards of a user's profiles: first that of the user's last start, then the others in their order.

        :param spawner: the user's spawner, with the values of ``group_overrides``; it stays unchanged.
        """
        profiles = loaded.profiles
        slugs = [as_text(profile["slug"]) for profile in profiles]
        last = as_text(request.saved.get(PROFILE))
        sent = request.typed.get(PROFILE, "")
        default = next((as_text(profile["slug"]) for profile in profiles if profile.get("default")), "")
        picked = next((slug for slug in (sent, last) if slug in slugs), default if request.picks_default else "")
        key = _describe_spawner(spawner)
        views = []
        for number, profile in enumerate(profiles):
            await asyncio.sleep(0)  # let the hub answer other requests
            slug = slugs[number]
            if slug in slugs[:number]:
                continue  # of several profiles with one slug, KubeSpawner takes the first
            card = _Card(profile, is_judged=number < _MAX_PROFILES or slug == picked, request=request)
            own_key = f"{key}{loaded.texts[number]}"
            view = await self._build_card(spawner, card, key=own_key, offer=offer, allowance=allowance)
            if view is not None:
                is_refused = slug == (sent or default)
                error = join_sentences(*(problem.message for problem in request.problems)) if is_refused else ""
                views.append(_mark(view, is_last=slug == last, is_picked=slug == picked, error=error))
        return tuple(sorted(views, key=lambda view: not view.is_last))

    async def find_startable(
        self, spawner: ProfileSupport, *, offer: Offer, allowance: Allowance
    ) -> list[tuple[str, str]]:
        """Return slug and name of each other profile that starts now with its default choices.

        If the user's profile has a GPU, others with a GPU come first.

        :param spawner: the spawner of a server that starts from a profile; it stays unchanged.
        """
        loaded = await load_profiles(spawner, is_refresh=True)
        cards = await self.build(spawner, loaded, offer=offer, allowance=allowance, request=CardRequest())
        chosen = as_text(as_dict(spawner.user_options).get(PROFILE))
        slug = chosen or next((card.slug for card in cards if card.is_picked), "")
        has_gpu = any(card.gpus for card in cards if card.slug == slug)
        others = [card for card in cards if card.slug != slug and card.outlook and card.outlook.outcome == Outcome.NOW]
        others.sort(key=lambda card: bool(card.gpus) != has_gpu)
        return [(card.slug, format_profile_name({"display_name": card.display_name})) for card in others]

    async def _build_card(
        self, spawner: ProfileSupport, card: _Card, *, key: str, offer: Offer, allowance: Allowance
    ) -> ProfileView | None:
        """Return a profile's card; None if the policy hides it, which needs a profile without options."""
        view, options = card.make_view(), card.list_user_options()
        if options is None or not card.is_judged:
            return view
        try:
            kept = await self._build_pod(spawner, card.profile, options=options, key=key, catalog=offer.catalog)
            if kept.pod is None:
                return view
            candidate = kept.candidate
            view = replace(view, summary=describe_candidate(candidate, offer.catalog), gpus=candidate.gpus.count)
            denials = allowance.check_candidate(candidate)
            if is_hidden_by_policy(denials, allowance) and not card.options:
                return None
            if denials:
                reason = join_sentences(*(denial.message for denial in denials))
                # Other choices in the options may be allowed.
                is_denied = not card.options or allowance.refusal is not None
                return replace(view, outlook=_make_refusal(reason), is_denied=is_denied)
            return replace(view, outlook=_format_verdict(await kept.judge(spawner, offer)))
        except RefusedProfile as error:
            return replace(view, outlook=_make_refusal(error.jupyterhub_message))
        except Exception as error:  # noqa: BLE001 - a pre_spawn_hook may set what KubeSpawner needs for the pod
            spawner.log.warning("Cannot predict whether the profile %s starts: %r", quote(card.slug), error)
            reason = gettext(
                "The hub cannot tell what this server gets. If it does not start, pick something else, or ask an admin."
            )
            return replace(view, outlook=VerdictView(outcome=Outcome.UNKNOWN.value, sentence=reason))

    async def _build_pod(
        self,
        spawner: ProfileSupport,
        profile: Mapping[str, Any],
        *,
        options: Mapping[str, str],
        key: str,
        catalog: Catalog,
    ) -> _KeptPod:
        whole = (key, frozenset(options.items()))
        if (kept := self._pods.get(whole)) is None:
            kept = _KeptPod(await build_profile_pod(spawner, profile, options=options))
        if not any(name.endswith(UNLISTED) for name in options):  # one user's texts would fill the memory for all
            self._pods[whole] = kept
            self._pods.move_to_end(whole)
        if len(self._pods) > _MAX_PODS:
            self._pods.popitem(last=False)
        kept.classify(catalog)
        return kept


def _describe_spawner(spawner: ProfileSupport) -> str:
    """Return a text that differs for spawners that build different pods."""
    values = private_api.get_trait_values(spawner)
    configured = {name: value for name, value in values.items() if getattr(type(spawner), name).metadata.get("config")}
    told = sorted((name, value) for name, value in configured.items() if name not in _FORM_TRAITS)
    text = repr((type(spawner), spawner.user.name, spawner.name, told))
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


@dataclass(slots=True)
class _KeptPod:
    """The pod of a profile with choices, and its last verdict.

    :param pod: the pod; None if only a start can build it.
    :param catalog: the GPU types by which ``candidate`` says what the pod asks for.
    """

    pod: ProfilePod | None
    catalog: Catalog | None = None
    candidate: Candidate = field(default_factory=Candidate)
    _judged: tuple[object, object, JudgedPod | None] | None = None

    def classify(self, catalog: Catalog) -> None:
        """Read what the pod asks for, unless that is known.

        :param catalog: the GPU types of the hub.
        """
        if self.pod is not None and self.catalog is not catalog:
            self.catalog, self.candidate, self._judged = catalog, self.pod.read_candidate(catalog), None

    async def judge(self, spawner: ProfileSupport, offer: Offer) -> Verdict:
        """Return when a server with the pod would start."""
        assert self.pod is not None  # noqa: S101 - the caller has checked
        inventory, now = offer.inventory, time.monotonic()
        is_old = inventory.age_s is None or inventory.age_s > MAX_DATA_AGE_S
        # Claims, queues and LimitRanges change without the inventory, so they are read again after a short time.
        outside = (now // _JUDGED_S, inventory.occupancy is None, inventory.runtime_classes, inventory.priority_classes)
        state = (inventory.generation, is_old)
        if self._judged is None or self._judged[:2] != (outside, state):
            judged = await judge_pod(
                spawner,
                self.pod.manifest,
                offer=offer,
                gpu=offer.catalog.gpus.get(self.candidate.gpus.gpu or ""),
                start_timeout_s=self.pod.start_timeout_s,
                before=self._judged[2] if self._judged is not None and self._judged[0] == outside else None,
            )
            self._judged = outside, state, judged
        judged = self._judged[2]
        return Verdict(outcome=Outcome.UNKNOWN) if judged is None else judged.verdict


class _Card:
    """A profile, and what the user has picked in its options."""

    def __init__(self, profile: Mapping[str, Any], *, is_judged: bool, request: CardRequest) -> None:
        self.profile = profile
        self.slug = as_text(profile["slug"])
        self.is_judged = is_judged
        self._given = self._read_given(request)
        options = as_dict(profile.get("profile_options")).items()
        self.options = tuple(self._build_option(name, as_dict(option)) for name, option in options)

    def _read_given(self, request: CardRequest) -> Mapping[str, str]:
        """Return name of an option, or of its free text, → what the user has picked or written."""
        prefix = name_option_field(self.slug, "")
        typed = {name.removeprefix(prefix): text for name, text in request.typed.items() if name.startswith(prefix)}
        if typed or request.saved.get(PROFILE) != self.slug:
            return typed
        return {str(name): text for name, text in request.saved.items() if isinstance(text, str)}

    def _build_option(self, name: str, option: Mapping[str, Any]) -> ProfileOptionView:
        choices, unlisted = as_dict(option.get("choices")), as_dict(option.get("unlisted_choice"))
        label = as_text(option.get("display_name")) or name
        default = next((slug for slug, choice in choices.items() if as_dict(choice).get("default")), "")
        given, text = self._given.get(name, ""), self._given.get(f"{name}{UNLISTED}", "")
        takes_text = bool(unlisted.get("enabled"))
        picked = given if given in choices else "" if takes_text and (text or not choices) else str(default)
        listed = [
            (str(slug), as_text(as_dict(choice).get("display_name")) or str(slug)) for slug, choice in choices.items()
        ]
        if listed and takes_text:
            listed.append(("", as_text(unlisted.get("display_name_in_choices")) or gettext("Other…")))
        return ProfileOptionView(
            field=name_option_field(self.slug, name),
            label=label,
            choices=tuple(listed),
            picked=picked,
            text_field=name_option_field(self.slug, f"{name}{UNLISTED}") if takes_text else "",
            text_label=as_text(unlisted.get("display_name")) or label,
            text=text if takes_text else "",
        )

    def list_user_options(self) -> dict[str, str] | None:
        """Return KubeSpawner's user options for what is picked; None while a text is missing."""
        prefix, options = name_option_field(self.slug, ""), {}
        for option in self.options:
            if option.picked:
                options[option.field.removeprefix(prefix)] = option.picked
            elif option.text:
                options[option.text_field.removeprefix(prefix)] = option.text
            else:
                return None
        return options

    def make_view(self) -> ProfileView:
        """Return the card without what its pod says."""
        return ProfileView(
            slug=self.slug,
            display_name=as_text(self.profile.get("display_name")) or self.slug,
            description=as_text(self.profile.get("description")),
            options=self.options,
        )


def _format_verdict(verdict: Verdict) -> VerdictView | None:
    # That the hub cannot predict a start is no news at each profile, but that no node of its kind runs is.
    if verdict.outcome is Outcome.UNKNOWN and not verdict.may_add_node:
        return None
    return VerdictView(outcome=verdict.outcome.value, sentence=format_verdict(verdict))


def _mark(view: ProfileView, *, is_last: bool, is_picked: bool, error: str) -> ProfileView:
    return replace(view, is_last=is_last, is_picked=is_picked, error=error, outlook=None if error else view.outlook)


def _make_refusal(reason: str) -> VerdictView:
    return VerdictView(outcome=Outcome.NEVER.value, sentence=reason)
