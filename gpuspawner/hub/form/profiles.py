"""KubeSpawner's profiles, for hubs with a ``profile_list`` and without settings of gpuspawner.

The form, the user options and the pods are KubeSpawner's. :func:`add_verdicts` adds each profile's GPUs and verdict to
the form. :func:`check_profile` refuses wrong choices in words.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kubespawner import KubeSpawner
from markupsafe import Markup
from slugify import slugify
from typing_extensions import override

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.text.i18n import ENGLISH, gettext, use_language
from gpuspawner.core.text.wording import format_list, join_sentences, quote, sanitize_name
from gpuspawner.core.verdict.verdict import Outcome, Verdict
from gpuspawner.core.verdict.wording import format_verdict
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.errors import RefusedProfile
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.metrics import registry, starts
from gpuspawner.hub.pod.patch import annotate_pod, read_chosen_gpus
from gpuspawner.hub.pod.preview import JudgedPod, copy_for_profiles, judge_pod, serialize_for_scheduling
from gpuspawner.hub.trait_overrides import TraitOverrides

_MAX_PROFILES = 30
"""Maximum number of profiles with a verdict. The limit saves time, because KubeSpawner builds a pod for each."""
_TEMPLATE = "form.html"
_CLASSES = {
    Outcome.NOW: "text-success-emphasis",
    Outcome.AFTER_SCALE_UP: "text-success-emphasis",
    Outcome.WAITS: "text-warning-emphasis",
    Outcome.NEVER: "text-danger-emphasis",
    Outcome.UNKNOWN: "text-body-secondary",
}
"""Outcome of a verdict → class of Bootstrap, which JupyterHub's pages use in the light and in the dark."""

_RENAMED = {"image_spec": "image"}
"""Old name of a trait of KubeSpawner, which is no trait any more → its name."""


class ProfileSupport(KubeSpawner):
    """The part of :class:`~gpuspawner.hub.spawner.GPUSpawner` that handles KubeSpawner's profiles.

    :ivar start_state: the state of the last start.
    """

    start_state: Any
    start_timeout: int
    trait_overrides: TraitOverrides

    async def apply_profile(self, catalog: Catalog) -> None:
        """Apply the profile in the user options as KubeSpawner does; the pod then says which GPUs it asks for.

        :param catalog: the GPU types of the hub.
        """
        await super().load_user_options()
        self.trait_overrides.patch = partial(self._note_profile, catalog=catalog)

    @override
    def _validate_user_options(self, profile_list: Any) -> None:
        # KubeSpawner's errors would count as failures of the hub, although users may send any options.
        self.start_state.profile = check_profile(
            self.user_options, profile_list, validate=super()._validate_user_options
        )

    @override
    def _load_profile(self, slug: Any, profile_list: Any) -> None:
        # JupyterHub may reuse this spawner, and KubeSpawner leaves a profile's values in it.
        traits = {
            _RENAMED.get(trait, trait)
            for profile in profile_list
            for override in list_profile_overrides(profile)
            for trait in override
        }
        self.trait_overrides.assign({trait: getattr(self, trait) for trait in traits if hasattr(self, trait)})
        start_timeout = self.start_timeout
        super()._load_profile(slug, profile_list)
        # JupyterHub has read the timeout before, so a longer one of a profile has no effect.
        self.start_timeout = min(start_timeout, self.start_timeout)

    def note_profile_pod(self, pod: Any) -> None:
        """Annotate a pod again, after the admin's ``modify_pod_hook``, which may have changed its GPUs.

        :param pod: the pod; it stays unchanged if a hook has returned something else than a model.
        """
        if self.trait_overrides.patch is not None and hasattr(getattr(pod, "metadata", None), "annotations"):
            pod.metadata.annotations = self.trait_overrides.patch(pod).metadata.annotations

    def _note_profile(self, pod: Any, *, catalog: Catalog) -> Any:
        """Return the pod of a profile, with annotations about its GPUs, and note them for pages and metrics."""
        with use_language(ENGLISH):  # Admins and programs read the annotations.
            annotated = annotate_pod(pod, catalog, profile=self.start_state.profile)
        self.start_state.annotations = annotated.metadata.annotations
        self.start_state.is_pod_built.set()
        gpus = read_chosen_gpus(annotated.metadata.annotations)
        self.start_state.feed.gpu = catalog.gpus.get(gpus.slug)
        starts.note_gpu(self, gpus.slug or registry.OTHER_LABEL if gpus.text else registry.NO_GPU)
        return annotated


async def add_verdicts(
    spawner: ProfileSupport, profiles: Sequence[Mapping[str, Any]], *, offer: Offer
) -> Sequence[Mapping[str, Any]]:
    """Return profiles whose descriptions end with their GPUs and a verdict, as far as the hub knows them.

    The profiles stay unchanged if the admin has a template for the form, which may show a description as plain text, or
    a subclass that loads or shows profiles in another way. A profile whose override is a function gets no verdict,
    because KubeSpawner calls the function only at a start.

    :param spawner: the user's spawner, with the values of ``group_overrides``; it stays unchanged.
    :param profiles: the profiles, as the admin has written them.
    :param offer: what the hub offers now.
    """
    if _is_changed(spawner):
        return profiles
    completed = private_api.complete_profiles(spawner, profiles)
    described: list[Mapping[str, Any]] = list(profiles)
    for number, profile in enumerate(completed[:_MAX_PROFILES]):
        await asyncio.sleep(0)  # let the hub answer other requests
        try:
            html = await _describe_verdict(spawner, profile, offer=offer)
        except Exception:  # log any exception: the form must also open if the pod of one profile cannot be built
            spawner.log.exception("Cannot predict whether the profile %s starts", quote(profile["slug"]))
            continue
        if html:
            description = Markup(profile.get("description") or "")  # noqa: S704 - HTML of the admin
            described[number] = {**profiles[number], "description": description + html}
    return described


def _is_changed(spawner: ProfileSupport) -> bool:
    kind: Any = type(spawner)
    has_template = any(
        (Path(folder) / _TEMPLATE).is_file() for folder in spawner.additional_profile_form_template_paths
    )
    is_loaded_by_us = kind.load_user_options.__module__.startswith("gpuspawner.")
    is_shown_by_kubespawner = private_api.renders_profiles_as_kubespawner(spawner)
    return bool(spawner.profile_form_template or has_template) or not (is_loaded_by_us and is_shown_by_kubespawner)


async def _describe_verdict(spawner: ProfileSupport, profile: Mapping[str, Any], *, offer: Offer) -> Markup:
    overrides = list_profile_overrides(profile, defaults_only=True)
    if any(callable(value) for override in overrides for value in override.values()):
        return Markup()
    duplicate = copy_for_profiles(spawner)
    duplicate.start_state = type(spawner.start_state)()
    duplicate.profile_list, duplicate.user_options = [profile], {"profile": profile["slug"]}
    try:
        await duplicate.apply_profile(offer.catalog)
    except RefusedProfile:
        return Markup()
    pod = await duplicate.get_pod_manifest()
    gpus = read_chosen_gpus(pod.metadata.annotations).text
    manifest = serialize_for_scheduling(duplicate, pod)
    judged = await judge_profile(duplicate, manifest, offer=offer)
    verdict = Verdict(outcome=Outcome.UNKNOWN) if judged is None else judged.verdict
    return _format_html(gpus, verdict, has_choices=_has_other_pods(profile))


async def judge_profile(spawner: ProfileSupport, manifest: Mapping[str, Any], *, offer: Offer) -> JudgedPod | None:
    """Return when a server with the pod of a profile would start; None for a malformed pod.

    The verdict is unknown if the pod exceeds what the namespace's ResourceQuotas leave: no policy refuses it before.

    :param spawner: the spawner that has built the pod.
    :param manifest: JSON of the pod.
    :param offer: what the hub offers now.
    """
    gpu, timeout_s = spawner.start_state.feed.gpu, float(spawner.start_timeout)
    judged = await judge_pod(spawner, manifest, offer=offer, gpu=gpu, start_timeout_s=timeout_s)
    quota = None if judged is None else await offer.read_quota(judged.pod.namespace)
    if judged is None or quota is None or not quota.is_exceeded_by(judged.pod.requests):
        return judged
    return judged._replace(verdict=Verdict(outcome=Outcome.UNKNOWN))


def _has_other_pods(profile: Mapping[str, Any]) -> bool:
    """Return whether a choice that is no default may change more of the pod than its image."""
    for option in as_dict(profile.get("profile_options")).values():
        default, *others = _list_choice_overrides(as_dict(option))
        if any(_drop_image(other) != _drop_image(default) for other in others):
            return True
    return False


def _list_choice_overrides(option: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the overrides of an option's choices, that of the default choice first."""
    choices = sorted(as_dict(option.get("choices")).values(), key=lambda choice: not as_dict(choice).get("default"))
    field = as_dict(option.get("unlisted_choice"))
    entries = [*choices, *([field] if field.get("enabled") else [])]
    return [as_dict(as_dict(entry).get("kubespawner_override")) for entry in entries] or [{}]


def _drop_image(override: Mapping[str, Any]) -> dict[str, Any]:
    return {trait: value for trait, value in override.items() if trait != "image"}


def _format_html(gpus: str, verdict: Verdict, *, has_choices: bool) -> Markup:
    lines = [("fw-semibold", gpus)]
    if has_choices:
        lines.append(("text-body-secondary", gettext("With its default choices:")))
    # That the hub cannot predict a start is no news at each profile, but that no node of its kind runs is.
    if verdict.outcome is not Outcome.UNKNOWN or verdict.may_add_node:
        lines.append((_CLASSES[verdict.outcome], format_verdict(verdict)))
    elif has_choices:
        lines.pop()
    return Markup().join(
        Markup('<span class="d-block {}">{}</span>').format(name, text) for name, text in lines if text
    )


def check_profile(
    options: Any, profiles: Sequence[Mapping[str, Any]] | None, *, validate: Callable[[Any], None]
) -> str:
    """Return the name of the profile that the user has chosen, or of the default profile; empty without profiles.

    :param options: the user options, any JSON value.
    :param profiles: the profiles, as KubeSpawner has completed them.
    :param validate: KubeSpawner's own check of the options.
    :raises RefusedProfile: there is no such profile, or no such choice in one of its options.
    """
    asked = as_dict(options)
    slug = asked.get("profile")
    known: dict[Any, Mapping[str, Any]] = {}
    for profile in profiles or ():
        known.setdefault(profile["slug"], profile)  # of several profiles with one slug, KubeSpawner takes the first
    if slug and known and (not isinstance(slug, str) or slug not in known):
        message = gettext("There is no profile {value}.", value=quote(slug))
        raise RefusedProfile(join_sentences(message, gettext("Offered: {choices}.", choices=format_list(known))))
    try:
        validate(profiles)
    except (TypeError, ValueError) as error:
        raise RefusedProfile(str(error)) from error
    if not known:
        return ""
    # Like KubeSpawner, take the first default of the whole list, of which several may have one slug.
    chosen = known[slug] if slug else next((profile for profile in profiles or () if profile.get("default")), {})
    _check_choices(asked, chosen)
    return _format_name(chosen)


def find_profile_name(profile_list: object, slug: str) -> str:
    """Return the name of a profile for users, or the slug for an unknown profile and for a list that is a function.

    :param profile_list: the admin's ``profile_list``.
    :param slug: slug of the profile.
    """
    profiles = profile_list.values() if isinstance(profile_list, Mapping) else profile_list
    for profile in profiles if isinstance(profiles, Iterable) else ():
        entry = as_dict(profile)
        if slug == (entry.get("slug") or slugify(as_text(entry.get("display_name")))):
            return _format_name(entry)
    return slug


def _format_name(profile: Mapping[str, Any]) -> str:
    """Return a profile's name as text: KubeSpawner's form shows it as HTML."""
    return Markup(profile.get("display_name", "")).striptags()  # noqa: S704 - becomes text


def list_profile_overrides(profile: Mapping[str, Any], *, defaults_only: bool = False) -> Iterator[Mapping[str, Any]]:
    """Yield each ``kubespawner_override`` of a profile and of the choices in its lists.

    :param profile: the profile, as KubeSpawner has completed it.
    :param defaults_only: whether to leave out choices that are no defaults, and text fields beside a list.
    """
    yield as_dict(profile.get("kubespawner_override"))
    for option in as_dict(profile.get("profile_options")).values():
        overrides = _list_choice_overrides(as_dict(option))
        yield from overrides[:1] if defaults_only else overrides


def _check_choices(options: Mapping[str, Any], profile: Mapping[str, Any]) -> None:
    """Refuse a choice that a list of the profile lacks.

    KubeSpawner's own check accepts an unknown entry, and then fails. It checks nothing if the options name no profile,
    and then starts the default profile with them.
    """
    for key, option in as_dict(profile.get("profile_options")).items():
        name, choice, text = sanitize_name(key), options.get(key), options.get(f"{key}--unlisted-choice")
        choices, field = list(as_dict(as_dict(option).get("choices"))), as_dict(as_dict(option).get("unlisted_choice"))
        if text:
            pattern: Any = field.get("validation_regex") or ""
            is_offered = field.get("enabled") and isinstance(text, str) and re.match(pattern, text)
        else:
            is_offered = not choice or choice in choices
        if not is_offered:
            message = gettext("{choice}: there is no entry {value}.", choice=name, value=quote(text or choice))
            raise RefusedProfile(message)
        if not (text or choice or choices):
            raise RefusedProfile(f"Unable to determine a default choice for {name}.")
