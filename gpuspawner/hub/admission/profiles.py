"""KubeSpawner's profiles: loads the profile that a user chooses, and checks it and its pod.

User options and pods of profiles are KubeSpawner's. :func:`check_profile` refuses wrong choices in words;
:meth:`ProfileSupport.admit_profile_pod` compares the finished pod with the user's limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from kubespawner import KubeSpawner
from markupsafe import Markup
from slugify import slugify
from typing_extensions import override

from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.errors import Problem, SelectionError
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.policy.admission import UnreadClusterError
from gpuspawner.core.request.candidate import Candidate, read_candidate
from gpuspawner.core.request.field_definitions import FORM_FIELDS
from gpuspawner.core.request.options import PROFILE, UNLISTED, check_size, get_max_length, name_option_field
from gpuspawner.core.text.i18n import ENGLISH, gettext, use_language
from gpuspawner.core.text.wording import format_list, join_sentences, quote, sanitize_name
from gpuspawner.hub.admission.service import AdmissionService
from gpuspawner.hub.config.offer import Offer
from gpuspawner.hub.errors import RefusedProfile, make_refusal, make_unread_cluster_failure
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.metrics import registry, starts
from gpuspawner.hub.pod.patch import annotate_pod, limit_pod, read_chosen_gpus, serialize_models
from gpuspawner.hub.pod.preview import copy_for_profiles, serialize_for_scheduling
from gpuspawner.hub.request import context
from gpuspawner.hub.trait_overrides import TraitOverrides
from gpuspawner.settings import FORM_SECTIONS, Settings


class ProfileSupport(KubeSpawner):
    """The part of :class:`~gpuspawner.hub.spawner.GPUSpawner` that handles KubeSpawner's profiles.

    :ivar start_state: the state of the last start.
    :ivar cards: the :class:`~gpuspawner.hub.form.profiles.ProfileCards` of the hub.
    :ivar kept_profiles: monotonic time and result of the last call of a ``profile_list`` that is a function, for forms.
    """

    cards: Any
    has_configured_form: Callable[[], bool]
    parse_settings: Callable[[], Settings]
    kept_profiles: tuple[float, LoadedProfiles] | None = None
    admission: AdmissionService
    start_state: Any
    start_timeout: int
    trait_overrides: TraitOverrides

    @property
    def has_fields(self) -> bool:
        """Whether users choose by gpuspawner's fields, alone or beside the profiles of a ``profile_list``.

        With a ``profile_list`` or a form of the admin, only settings that describe fields make fields.
        """
        # To save time, parse the settings only if the answer depends on them.
        if not (self.profile_list or self.has_configured_form()):
            return True
        changed = self.parse_settings().changed
        return not changed.isdisjoint(FORM_SECTIONS) or ("gpus" in changed and not self.profile_list)

    @property
    def starts_profile(self) -> bool:
        """Whether the user options are KubeSpawner's, not those of gpuspawner's fields."""
        return not self.has_fields or (bool(self.profile_list) and names_profile(self.user_options))

    async def apply_profile(self, offer: Offer) -> None:
        """Apply the profile in the user options as KubeSpawner does; the pod then says which GPUs it asks for.

        :param offer: what the hub offers now.
        """
        with self.refuse_problems(offer):
            check_size(self.user_options)
        await self.load_profile()
        self.trait_overrides.patch = partial(self._note_profile, catalog=offer.catalog)

    async def load_profile(self) -> None:
        """Set the traits of the profile in the user options, as KubeSpawner does."""
        await super().load_user_options()

    @override
    def _validate_user_options(self, profile_list: Any) -> None:
        # KubeSpawner's errors would count as failures of the hub, although users may send any options.
        profile = check_profile(self.user_options, profile_list, validate=super()._validate_user_options)
        options = as_dict(self.user_options)
        self.start_state.profile = format_profile_name(profile)
        self.start_state.names_image = _names_image(options, profile)
        self.start_state.texts = tuple(sanitize_name(name) for name, _ in _list_texts(options, profile))

    @override
    def _load_profile(self, slug: Any, profile_list: Any) -> None:
        # JupyterHub may reuse this spawner, and KubeSpawner leaves a profile's values in it.
        traits = {
            private_api.find_trait_name(trait)
            for profile in profile_list
            for override in list_profile_overrides(profile)
            for trait in override
        }
        self.trait_overrides.assign({trait: getattr(self, trait) for trait in traits if hasattr(self, trait)})
        start_timeout = self.start_timeout
        with self.blame_texts():
            super()._load_profile(slug, profile_list)
        # JupyterHub has read the timeout before, so a longer one of a profile has no effect.
        self.start_timeout = min(start_timeout, self.start_timeout)

    @contextmanager
    def refuse_problems(self, offer: Offer) -> Iterator[None]:
        """Turn problems of a start's choice into errors with messages for JupyterHub.

        :param offer: what the hub offers now.
        """
        try:
            yield
        except UnreadClusterError as error:
            self.start_state.is_refused = True
            raise make_unread_cluster_failure(offer.unread_reason) from error
        except SelectionError as error:
            context.note_problems(error.problems)
            self.start_state.is_refused = True
            raise make_refusal(error) from error

    @contextmanager
    def blame_texts(self) -> Iterator[None]:
        """Turn errors of KubeSpawner into a refusal, if the user has written texts into options of the profile.

        KubeSpawner puts such a text into the values of traits, which may not accept it. The error would count as a
        failure of the hub.

        :raises RefusedProfile: in place of any other error.
        """
        try:
            yield
        except RefusedProfile:
            raise
        except Exception as error:
            if not self.start_state.texts:
                raise
            self.log.warning("%s cannot start with the user's own text: %s", self._log_name, type(error).__name__)
            raise RefusedProfile(_explain_text(format_list(self.start_state.texts))) from error

    async def admit_profile_pod(self, pod: Any, *, offer: Offer) -> None:
        """Check the pod of a start against the user's limits, and write into it what the policy sets.

        :param pod: the pod, after the admin's ``modify_pod_hook``, which may have changed its GPUs.
        :param offer: the catalog of choices and the cluster's state.
        :raises RefusedStart: the user may not have the pod.
        """
        candidate = self._read_candidate(pod, catalog=offer.catalog)
        with self.refuse_problems(offer):
            admission = await self.admission.admit_pod(self, candidate, offer=offer, is_start=True)
        self.start_state.is_admitted = True
        # A hook may return something else than a model, which KubeSpawner then refuses.
        if hasattr(getattr(pod, "metadata", None), "annotations"):
            pod.metadata.annotations = self._note_profile(pod, catalog=offer.catalog).metadata.annotations
            limit_pod(pod, admission)

    def _read_candidate(self, pod: Any, *, catalog: Catalog) -> Candidate:
        return read_candidate(as_dict(serialize_models(pod)), catalog, names_image=self.start_state.names_image)

    def _note_profile(self, pod: Any, *, catalog: Catalog) -> Any:
        """Return the pod of a profile, with annotations about its GPUs, and note them for pages and metrics."""
        candidate = self._read_candidate(pod, catalog=catalog)
        with use_language(ENGLISH):  # Admins and programs read the annotations.
            annotated = annotate_pod(pod, candidate.gpus, catalog=catalog, profile=self.start_state.profile)
        self.start_state.annotations = annotated.metadata.annotations
        self.start_state.is_pod_built.set()
        gpus = read_chosen_gpus(annotated.metadata.annotations)
        self.start_state.feed.gpu = catalog.gpus.get(gpus.slug)
        starts.note_gpu(self, gpus.slug or registry.OTHER_LABEL if gpus.text else registry.NO_GPU)
        return annotated


class LoadedProfiles(NamedTuple):
    """The profiles of a user.

    :param profiles: the profiles, as KubeSpawner completes them.
    :param texts: a text for each profile, which differs for different profiles.
    :param problem: why the hub could not load them, a sentence for the user; "" if it could.
    """

    profiles: Sequence[Mapping[str, Any]] = ()
    texts: Sequence[str] = ()
    problem: str = ""


class ProfilePod(NamedTuple):
    """The pod of a profile with choices in its options, which is not created.

    :param manifest: JSON of the pod, as far as schedulers read it.
    :param names_image: whether the user names the image in a text field of the profile.
    :param start_timeout_s: seconds that the hub waits for the server.
    """

    manifest: Mapping[str, Any]
    names_image: bool
    start_timeout_s: float

    def read_candidate(self, catalog: Catalog) -> Candidate:
        """Return what the pod asks for.

        :param catalog: the GPU types of the hub.
        """
        return read_candidate(self.manifest, catalog, names_image=self.names_image)


async def build_profile_pod(
    spawner: ProfileSupport, profile: Mapping[str, Any], *, options: Mapping[str, str]
) -> ProfilePod | None:
    """Return the pod of a profile with choices; None if an override is a function, which only a start calls.

    :param spawner: the user's spawner; it stays unchanged.
    :param profile: the profile, as KubeSpawner has completed it.
    :param options: user options with the choices in the profile's options.
    :raises RefusedProfile: the profile does not have such a choice.
    """
    if any(callable(value) for override in _list_chosen(profile, options) for value in override.values()):
        return None
    duplicate = copy_for_profiles(spawner)
    duplicate.start_state = type(spawner.start_state)()
    duplicate.profile_list, duplicate.user_options = [profile], {PROFILE: profile["slug"], **options}
    await duplicate.load_profile()
    pod = await duplicate.get_pod_manifest()
    return ProfilePod(
        serialize_for_scheduling(duplicate, pod),
        names_image=duplicate.start_state.names_image,
        start_timeout_s=float(duplicate.start_timeout),
    )


async def check_profile_options(
    spawner: ProfileSupport, options: Mapping[str, Any], *, loaded: LoadedProfiles, offer: Offer
) -> None:
    """Check the profile and the choices of a form or link. The start checks them again, with the finished pod.

    :param spawner: the user's spawner, with the values of ``group_overrides``; it stays unchanged.
    :param options: KubeSpawner's user options.
    :param loaded: the user's profiles.
    :param offer: what the hub offers now.
    :raises SelectionError: there is no such profile or choice, the user may not have the pod, or the profiles could not
        be loaded.
    """
    check_size(options)
    if loaded.problem:
        raise SelectionError(Problem(field=PROFILE, code="unavailable", message=loaded.problem))
    try:
        validate = partial(private_api.validate_options, spawner, options)
        profile = check_profile(options, loaded.profiles, validate=lambda known: validate(profiles=known))
        chosen = {name: text for name, text in options.items() if name != PROFILE and isinstance(text, str)}
        pod = await build_profile_pod(spawner, profile, options=chosen) if profile else None
    except RefusedProfile as error:
        problem = Problem(field=PROFILE, code=error.code, message=error.jupyterhub_message)
        raise SelectionError(problem) from error
    except Exception as error:  # noqa: BLE001 - a pre_spawn_hook may set what KubeSpawner needs for the pod
        spawner.log.warning("Only a start checks the profile of %s: %r", private_api.get_log_name(spawner), error)
        return
    if pod is not None:
        await spawner.admission.admit_pod(spawner, pod.read_candidate(offer.catalog), offer=offer, is_start=False)


def names_profile(options: object) -> bool:
    """Return whether user options are KubeSpawner's, for a hub that has both profiles and fields.

    Those of the fields have a version ``v``. A server without any options gets the default profile.

    :param options: user options, any JSON value.
    """
    given = as_dict(options)
    return "v" not in given and (bool(given.get(PROFILE)) or given.keys().isdisjoint(("preset", *FORM_FIELDS)))


def check_profile(
    options: Any, profiles: Sequence[Mapping[str, Any]] | None, *, validate: Callable[[Any], None]
) -> Mapping[str, Any]:
    """Return the profile that the user has chosen, or the default profile; empty without profiles.

    :param options: the user options, any JSON value.
    :param profiles: the profiles, as KubeSpawner has completed them.
    :param validate: KubeSpawner's own check of the options.
    :raises RefusedProfile: there is no such profile, or no such choice in one of its options.
    """
    asked = as_dict(options)
    slug = asked.get(PROFILE)
    known: dict[Any, Mapping[str, Any]] = {}
    for profile in profiles or ():
        known.setdefault(profile["slug"], profile)  # of several profiles with one slug, KubeSpawner takes the first
    if slug and known and (not isinstance(slug, str) or slug not in known):
        message = gettext("There is no profile {value}.", value=quote(slug))
        raise RefusedProfile(join_sentences(message, gettext("Offered: {choices}.", choices=format_list(known))))
    # Like KubeSpawner, take the first default of the whole list, of which several may have one slug.
    default = next((profile for profile in profiles or () if profile.get("default")), {})
    chosen = known[slug] if slug and known else default
    _check_choices(asked, chosen)
    try:
        validate(profiles)
    except (TypeError, ValueError) as error:
        raise RefusedProfile(str(error)) from error
    return chosen


def find_profile_name(profile_list: object, slug: str) -> str:
    """Return the name of a profile for users, or the slug for an unknown profile and for a list that is a function.

    :param profile_list: the admin's ``profile_list``.
    :param slug: slug of the profile.
    """
    profiles = profile_list.values() if isinstance(profile_list, Mapping) else profile_list
    for profile in profiles if isinstance(profiles, Iterable) else ():
        entry = as_dict(profile)
        if slug == (entry.get("slug") or slugify(as_text(entry.get("display_name")))):
            return format_profile_name(entry)
    return slug


def format_profile_name(profile: Mapping[str, Any]) -> str:
    """Return a profile's name as text; the admin may write it as HTML.

    :param profile: the profile; empty for none.
    """
    return Markup(profile.get("display_name", "")).striptags()  # noqa: S704 - becomes text


def list_profile_overrides(profile: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield each ``kubespawner_override`` of a profile and of the choices in its options.

    :param profile: the profile, as KubeSpawner has completed it.
    """
    yield as_dict(profile.get("kubespawner_override"))
    for option in as_dict(profile.get("profile_options")).values():
        entries = [*as_dict(as_dict(option).get("choices")).values(), as_dict(option).get("unlisted_choice")]
        yield from (as_dict(as_dict(entry).get("kubespawner_override")) for entry in entries)


def _list_chosen(profile: Mapping[str, Any], options: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Yield each ``kubespawner_override`` that a start with these choices applies."""
    yield as_dict(profile.get("kubespawner_override"))
    for name, option in as_dict(profile.get("profile_options")).items():
        choices = as_dict(as_dict(option).get("choices"))
        default: Any = next((choice for choice in choices.values() if as_dict(choice).get("default")), {})
        entry = choices.get(options.get(name, ""), default)
        entry = as_dict(option).get("unlisted_choice") if options.get(f"{name}{UNLISTED}") else entry
        yield as_dict(as_dict(entry).get("kubespawner_override"))


def _list_texts(options: Mapping[str, Any], profile: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each option of the profile in which the user has written a text: its name, and its ``unlisted_choice``."""
    for name, option in as_dict(profile.get("profile_options")).items():
        if options.get(f"{name}{UNLISTED}"):
            yield name, as_dict(as_dict(option).get("unlisted_choice"))


def _names_image(options: Mapping[str, Any], profile: Mapping[str, Any]) -> bool:
    """Return whether the user names an image of the server in a text field of the profile."""
    return any(_sets_image(field.get("kubespawner_override")) for _, field in _list_texts(options, profile))


def _sets_image(override: object) -> bool:
    if isinstance(override, Mapping):
        return any(
            private_api.find_trait_name(str(key)) == "image" or _sets_image(inner) for key, inner in override.items()
        )
    return isinstance(override, list) and any(map(_sets_image, override))


def _check_choices(options: Mapping[str, Any], profile: Mapping[str, Any]) -> None:
    """Refuse a choice that a list of the profile lacks.

    KubeSpawner's own check accepts an unknown entry, and then fails. It checks nothing if the options name no profile,
    and then starts the default profile with them.
    """
    for key, option in as_dict(profile.get("profile_options")).items():
        name, choice, text = sanitize_name(key), options.get(key), options.get(f"{key}{UNLISTED}")
        choices, field = list(as_dict(as_dict(option).get("choices"))), as_dict(as_dict(option).get("unlisted_choice"))
        if text and not _accepts_text(field, text):
            raise RefusedProfile(as_text(field.get("validation_message")) or _explain_text(name))
        if not text and choice and choice not in choices:
            message = gettext("{choice}: there is no entry {value}.", choice=name, value=quote(choice))
            raise RefusedProfile(message)
        if not (text or choice or choices):
            raise RefusedProfile(f"Unable to determine a default choice for {name}.")


def _explain_text(option: str) -> str:
    return gettext("{choice}: this text cannot be used. Enter something else, or ask an admin.", choice=option)


def _accepts_text(field: Mapping[str, Any], text: object) -> bool:
    """Return whether an ``unlisted_choice`` accepts a text; False for a pattern that is no regular expression."""
    if not (field.get("enabled") and isinstance(text, str)) or len(text) > get_max_length(name_option_field("", "")):
        return False
    try:
        text.encode()
        return re.match(field.get("validation_regex") or "", text) is not None
    except (UnicodeEncodeError, re.error):
        return False
