"""One values file as a hub would use it: what users can pick, who may have each pick, and the server that results.

A side is one of the two values files that the package compares. A :class:`ProfileSide` stands for a hub with plain
KubeSpawner, a :class:`SettingsSide` for a hub with settings of gpuspawner. Both build pods with the spawner's own code,
without a hub and without a cluster.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jupyterhub.utils import maybe_future
from kubespawner import KubeSpawner
from slugify import slugify
from traitlets.config import Config
from typing_extensions import override

from gpuspawner.cli.cluster.cluster_view import FALLBACK_IMAGE, read_configured_resources
from gpuspawner.cli.cluster.offline_spawner import make_offline_spawner
from gpuspawner.cli.compare.menu import FORM, UNLISTED, MenuEntry, MenuOption, MenuProfile, Pick
from gpuspawner.cli.compare.pods import Server
from gpuspawner.cli.values.chart_config import (
    OUR_CLASSES,
    build_spawner_config,
    get_chart_value,
    get_configured_trait,
    make_settings_parser,
)
from gpuspawner.cli.values.helm_values import HelmValues, merge_settings, require_sections
from gpuspawner.core.catalog.model import Catalog, Preset, PresetChoice
from gpuspawner.core.catalog.policy_model import UNLIMITED, Access, AccessKey, Person, Rule, normalize_group
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import ConfiguredCatalog, assemble_catalog
from gpuspawner.core.errors import PolicyError, Problem, SelectionError, SettingsError
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.policy.admission import Admission, UnreadClusterError, admit
from gpuspawner.core.policy.allowance import Allowance
from gpuspawner.core.policy.rules import resolve_rule
from gpuspawner.core.request.field_definitions import CPU, MEMORY
from gpuspawner.core.request.presets import PRESET_CHOICES
from gpuspawner.hub.config.offer import OfferFactory, ParsedSettings
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.hub.pod.patch import PodChoice, apply_choice, build_preferences, list_gpu_resources
from gpuspawner.hub.pod.preview import serialize_pod
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.trait_overrides import copy_nested

_USER = Person(name="user")
_NAMESPACE = "jhub"
_MANY_GPUS = 1 << 16
"""Maximum number of GPUs for a GPU type without ``max_count``; a hub would read the maximum from the nodes."""
_EXAMPLES = (
    *("registry.example.org/team/image:1.0", "quay.io/jupyter/base-notebook:2025-01-01", "jupyter/base-notebook:1"),
    *("base-notebook:1.0", "base-notebook", "8G", "1G", "8", "1", "text"),
)
"""Examples of what a user writes in a text field; the program uses the first one that the field's pattern matches."""
_AMOUNT_EXAMPLES = {"cpu_limit": "2", "cpu_guarantee": "2", "mem_limit": "2G", "mem_guarantee": "2G"}
_LITERAL_START = re.compile(r"\^?(?P<literal>(?:\\[.\-/:]|[\w./:@-](?![*+?{|]))*)", re.ASCII)
"""Matches the plain text with which a regular expression begins, such as ``team/`` in ``^team/.*``."""
_ENDS = ("image:1.0", "team/image:1.0", ":1.0", "1.0", "")


class UncomparedError(Exception):
    """Raised for a choice if the values alone do not determine its server.

    For example, the server depends on the cluster's nodes, or on a text that the user writes.
    """


class RefusedError(Exception):
    """Raised for a choice that the hub refuses for every user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubAnswer:
    """The users who may have a choice, and the server that the hub would start for this choice.

    :param allowed: indexes of the users who may have the choice, in the ``persons`` passed to :meth:`Side.answer`.
    :param server: the server; may be None if no user may have the choice.
    """

    allowed: frozenset[int]
    server: Server | None


class Side(ABC):
    """One of the two compared values files, as a hub would use it.

    :ivar profiles: the menu from which users pick.
    :ivar groups: names of the groups that the file's access rules name.
    :ivar users: names of the users that the file's access rules name.
    """

    profiles: tuple[MenuProfile, ...] = ()
    groups: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    @abstractmethod
    def make_options(self, pick: Pick) -> dict[str, object]:
        """Return the JupyterHub user options that result from a pick in the spawn form.

        :param pick: one of :attr:`profiles`, with one choice in each of the profile's options.
        """

    @abstractmethod
    def find_pick(self, options: Mapping[str, object]) -> Pick | None:
        """Return the picked profile, with one choice in each of its options; None if the user picked no profile.

        :param options: user options that the hub accepts.
        """

    @abstractmethod
    async def answer(
        self, options: Mapping[str, object], persons: Sequence[Person], *, preferred: Iterable[int] = ()
    ) -> HubAnswer:
        """Return which users may have the choice that user options describe, and the server that the hub would start.

        :param options: the user options; empty = the user chooses nothing.
        :param persons: the users to check.
        :param preferred: indexes in ``persons`` of the users that :class:`SettingsSide` tries first. It returns the
            server of the first user who may have the choice. :class:`ProfileSide` ignores ``preferred``.
        :raises RefusedError: the hub refuses the options for every user.
        :raises UncomparedError: the values alone do not determine the result.
        """


def open_side(values: HelmValues, *, is_helm: bool = True) -> Side:
    """Return the side for a values file: a :class:`ProfileSide` or a :class:`SettingsSide`.

    Call this function only inside the context manager :func:`gpuspawner.cli.cluster.offline_spawner.share_connection`.

    :param values: the merged values files.
    :param is_helm: whether the hub gets the values through Helm, which sorts the keys of mappings.
    :raises SettingsError: KubeSpawner or gpuspawner does not accept the values.
    """
    if is_helm:
        values = HelmValues(merged=_sort_keys(values.chart))
    require_sections(values)
    raw = {name: value for name, value in merge_settings(values).items() if value is not None}
    config = build_spawner_config(values.chart, namespace=_NAMESPACE)
    settings = OfferFactory(make_settings_parser(values.chart)).parse(raw)
    profile_list = get_configured_trait(config, "profile_list")
    is_ours = get_chart_value(values.chart, "hub.config.JupyterHub.spawner_class") in OUR_CLASSES
    if settings.is_empty and (profile_list or not is_ours):
        return ProfileSide(config)
    return SettingsSide(config, settings)


def _sort_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sort_keys(value[key]) for key in sorted(value, key=str)}
    return [_sort_keys(entry) for entry in value] if isinstance(value, list) else value


def read_traits(spawner: KubeSpawner) -> dict[str, Any]:
    """Return the values of traits that the pod's manifest does not show, such as ``start_timeout``: name → value.

    The result contains no functions.

    :param spawner: the spawner, after the user's choice has set its traits.
    """
    values = {name: getattr(spawner, name) for name in _TRAITS if hasattr(type(spawner), name)}
    return {name: value for name, value in values.items() if not callable(value)}


_TRAITS = (
    *("start_timeout", "default_url", "http_timeout", "notebook_dir", "poll_interval", "events_enabled", "debug"),
    *("delete_grace_period", "delete_pvc", "delete_stopped_pods", "remember_pvc_name", "slug_scheme"),
    *("enable_user_namespaces", "user_namespace_template", "pod_name_template", "dns_name_template"),
    *("pvc_name_template", "secret_name_template", "services_enabled", "disable_user_config", "group_overrides"),
    *("storage_pvc_ensure", "storage_capacity", "storage_class", "storage_access_modes", "storage_selector"),
    *("storage_extra_labels", "storage_extra_annotations", "consecutive_failure_limit"),
    *("oauth_roles", "oauth_client_allowed_scopes", "server_token_scopes", "k8s_api_request_timeout"),
)


class ProfileSide(Side):
    """A hub with plain KubeSpawner, with or without a profile list.

    KubeSpawner itself ignores the keys ``allowed_groups`` and ``allowed_users`` of a profile or choice. This class
    assumes that a hook of the hub applies them. :attr:`profiles` leaves out profiles and choices that no user may have.

    :param config: the configuration of the hub's spawners.
    :raises SettingsError: KubeSpawner does not accept the values.
    """

    def __init__(self, config: Config) -> None:
        kind: type[KubeSpawner] = type("KubeSpawner", (KubeSpawner,), {"reflectors": {}})
        self._spawner: KubeSpawner = make_offline_spawner(kind, config=config, person=_USER)
        self._base = dict(private_api.get_trait_values(self._spawner))
        self._access: dict[tuple[str, ...], Access] = {}
        self._names: dict[str, None] = {}
        found = self._spawner.profile_list
        if callable(found):
            raise _make_list_error("is made by a function, which is not run here")
        entries = [found[key] for key in sorted(found)] if isinstance(found, Mapping) else list(found or ())
        self._entries: dict[str, Mapping[str, Any]] = {}
        found = [self._read_profile(entry, number) for number, entry in enumerate(entries, start=1)]
        self.profiles = _tell_apart(each for each in found if self._is_open(each.slug))
        self.groups = tuple(self._names)
        self.users = tuple(dict.fromkeys(name for each in self._access.values() for name in sorted(each.users)))

    def _read_profile(self, entry: Any, number: int) -> MenuProfile:
        title = entry.get("display_name") if isinstance(entry, Mapping) else None
        if not isinstance(title, str):
            raise _make_list_error(f"needs a display_name in profile {number}")
        # KubeSpawner derives a slug from the title in the same way.
        own = entry["slug"] if "slug" in entry else slugify(title)
        slug = _make_unique(str(own), known=self._entries)
        self._entries[slug] = {**entry, "slug": own}
        self._read_access(entry, (slug,))
        options = as_dict(entry.get("profile_options"))
        found = (self._read_option(slug, str(name), option=as_dict(option)) for name, option in options.items())
        return MenuProfile(slug=slug, title=title, options=tuple(option for option in found if option.entries))

    def _read_option(self, slug: str, name: str, *, option: Mapping[str, Any]) -> MenuOption:
        choices = as_dict(option.get("choices"))
        entries = []
        for key, choice in choices.items():
            self._read_access(choice, (slug, name, str(key)))
            if not self._is_open(slug, name, str(key)):
                continue
            title = as_text(as_dict(choice).get("display_name")) or str(key)
            is_default = as_dict(choice).get("default") is True
            entries.append(MenuEntry(slug=str(key), title=title, is_default=is_default))
        unlisted = as_dict(option.get("unlisted_choice"))
        self._read_access(unlisted, (slug, name, UNLISTED))
        if unlisted.get("enabled") and self._is_open(slug, name, UNLISTED):
            pattern = as_text(unlisted.get("validation_regex"))
            entries.append(
                MenuEntry(
                    slug=UNLISTED,
                    title=as_text(unlisted.get("display_name_in_choices")) or "Other…",
                    text=_find_example(pattern, traits=as_dict(unlisted.get("kubespawner_override"))),
                    pattern=pattern,
                )
            )
        return MenuOption(name=name, title=as_text(option.get("display_name")) or name, entries=tuple(entries))

    def _read_access(self, entry: Any, key: tuple[str, ...]) -> None:
        groups, users = (as_dict(entry).get(name) for name in ("allowed_groups", "allowed_users"))
        if groups is None and users is None:
            return
        named = _list_texts(groups)
        self._names |= dict.fromkeys(named)
        self._access[key] = Access(groups=frozenset(map(normalize_group, named)), users=frozenset(_list_texts(users)))

    def _is_open(self, *key: str) -> bool:
        access = self._access.get(key)
        return access is None or bool(access.groups or access.users)

    @override
    def make_options(self, pick: Pick) -> dict[str, object]:
        texts = {f"{each.name}{UNLISTED}": entry.text for each, entry in pick.chosen if entry.slug == UNLISTED}
        slugs = {each.name: entry.slug for each, entry in pick.chosen if entry.slug != UNLISTED}
        return {"profile": pick.profile.slug, **slugs, **texts}

    @override
    def find_pick(self, options: Mapping[str, object]) -> Pick | None:
        profile = next((each for each in self.profiles if each.slug == options.get("profile")), None)
        if profile is None:
            return None
        texts = {each.name: UNLISTED for each in profile.options if f"{each.name}{UNLISTED}" in options}
        return profile.find_pick({**options, **texts})

    @override
    async def answer(
        self, options: Mapping[str, object], persons: Sequence[Person], *, preferred: Iterable[int] = ()
    ) -> HubAnswer:
        pick = self.find_pick(options)
        texts = [entry.text for entry in pick.entries if entry.slug == UNLISTED] if pick is not None else []
        if not all(texts):
            message = "no text is known that matches the pattern for the user's text"
            raise UncomparedError(message)
        needed = [access for key, access in self._access.items() if pick is not None and _concerns(key, pick)]
        allowed = frozenset(
            number for number, person in enumerate(persons) if all(each.admits(person) for each in needed)
        )
        if pick is None:
            # The user chose no profile, so KubeSpawner picks the default. Pass KubeSpawner only the profiles that
            # persons[0] may have: the hub's hook removes the others.
            profiles = self._list_profiles_for(persons[0])
        else:
            # Pass KubeSpawner only the picked profile: of two profiles with the same slug, KubeSpawner always uses the
            # first.
            profiles = [self._entries[pick.profile.slug]]
            options = {**options, "profile": profiles[0]["slug"]}
        try:
            return HubAnswer(allowed=allowed, server=await self._build(options, profiles))
        except RefusedError as error:
            if not texts:
                raise
            message = f"no text is known that suits the field: {error}"
            raise UncomparedError(message) from error

    def _list_profiles_for(self, person: Person) -> list[Mapping[str, Any]]:
        """Return the profiles that a user may have; their options contain only choices that the user may have."""

        def is_denied(*key: str) -> bool:
            return key in self._access and not self._access[key].admits(person)

        found: list[Mapping[str, Any]] = []
        for slug, entry in self._entries.items():
            if is_denied(slug):
                continue
            options = {}
            for name, option in as_dict(entry.get("profile_options")).items():
                choices = as_dict(as_dict(option).get("choices"))
                kept = {key: choice for key, choice in choices.items() if not is_denied(slug, str(name), str(key))}
                options[name] = {**as_dict(option), **({"choices": kept} if choices else {})}
            found.append({**entry, **({"profile_options": options} if options else {})})
        return found

    async def _build(self, options: Mapping[str, object], profiles: list[Mapping[str, Any]]) -> Server:
        spawner = self._spawner
        # Copy the dicts in the traits: KubeSpawner changes them when it merges overrides.
        values = {name: copy_nested(value) for name, value in self._base.items() if name != "profile_list"}
        private_api.set_trait_values(spawner, {**values, "profile_list": profiles})
        spawner.user_options = dict(options)
        try:
            await spawner.load_user_options()
            pod = await spawner.get_pod_manifest()
            if spawner.modify_pod_hook:
                pod = await maybe_future(spawner.modify_pod_hook(spawner, pod))
            return Server(manifest=serialize_pod(spawner, pod), traits=read_traits(spawner))
        except Exception as error:
            message = f"KubeSpawner refuses it: {type(error).__name__}: {error}"
            raise RefusedError(message) from error


_REPEATED = "#"
"""Separator before the number that makes slugs unique if several profiles have the same slug: ``small#2``."""


def _make_unique(slug: str, *, known: Collection[str]) -> str:
    numbers = (f"{slug}{_REPEATED}{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain((slug,), numbers) if each not in known)


def _tell_apart(profiles: Iterable[MenuProfile]) -> tuple[MenuProfile, ...]:
    """Return profiles with unique titles: append the slug to each title that several profiles have."""
    found = tuple(profiles)
    titles = Counter(each.title for each in found)
    return tuple(
        replace(each, title=f"{each.title} ({each.slug})") if titles[each.title] > 1 else each for each in found
    )


def _list_texts(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list | tuple) else [] if value is None else [str(value)]


def _concerns(key: tuple[str, ...], pick: Pick) -> bool:
    slug, *rest = key
    chosen = [[option.name, entry.slug] for option, entry in pick.chosen]
    return slug == pick.profile.slug and (not rest or rest in chosen)


def _find_example(pattern: str, *, traits: Collection[str] = ("image",)) -> str:
    """Return an example of a text that a field accepts, or "" if no known example matches the field's pattern.

    :param pattern: a regular expression that the beginning of the text must match.
    :param traits: traits of KubeSpawner to which the field's text is assigned.
    """
    own = [_AMOUNT_EXAMPLES.get(trait, "text") for trait in traits]
    examples = _EXAMPLES if "image" in traits else (*own, *_EXAMPLES)
    prefix = _LITERAL_START.match(pattern)
    literal = re.sub(r"\\(.)", r"\1", prefix["literal"]) if prefix else ""
    try:
        return next((each for each in (*examples, *(literal + end for end in _ENDS)) if re.match(pattern, each)), "")
    except re.error:
        return ""


def _make_list_error(message: str) -> SettingsError:
    return SettingsError(Problem(field="profile_list", code="bad_value", message=message))


class SettingsSide(Side):
    """A hub with settings of gpuspawner.

    :param config: the configuration of the hub's spawners.
    :param settings: the parsed settings.
    :raises SettingsError: KubeSpawner does not accept the configuration.
    """

    def __init__(self, config: Config, settings: ParsedSettings) -> None:
        lenient = partial(parse_settings, accepts_unknown_traits=True)  # The settings have been checked.
        kind: type[GPUSpawner] = type(
            "GPUSpawner", (GPUSpawner,), {"reflectors": {}, "offer_factory": OfferFactory(lenient)}
        )
        self._spawner = make_offline_spawner(kind, config=config, person=_USER)
        self._unread = settings.configured.uncounted
        self._catalog = _assemble_catalog(config, settings)
        self._rules: list[Rule] = []
        self._allowances: dict[Person, Allowance] = {}
        self._admissions: dict[tuple[object, ...], Admission | None] = {}
        presets = tuple(_read_preset(each) for each in self._catalog.presets.values())
        self.profiles = presets if self._catalog.only_presets else (*presets, _read_form(self._catalog))
        self.groups, self.users = _list_names(self._catalog)

    @override
    def make_options(self, pick: Pick) -> dict[str, object]:
        if pick.profile.slug == FORM:
            chosen = {option.name: entry.slug for option, entry in pick.chosen if entry.slug}
            return {"v": 1, **chosen, **({"gpu_count": 1} if "gpu" in chosen else {"gpu_count": 0})}
        options: dict[str, object] = {"v": 1, "preset": pick.profile.slug}
        entries = {option.name: entry.slug for option, entry in pick.chosen if entry.slug != UNLISTED}
        if entries:
            options[PRESET_CHOICES] = entries
        texts = [entry.text for entry in pick.entries if entry.slug == UNLISTED]
        return {**options, "custom_image": texts[0]} if texts else options

    @override
    def find_pick(self, options: Mapping[str, object]) -> Pick | None:
        slug = options.get("preset") or FORM
        profile = next((each for each in self.profiles if each.slug == slug), None)
        if profile is None:
            return None
        chosen = options if slug == FORM else as_dict(options.get(PRESET_CHOICES))
        has_image = bool(options.get("custom_image"))
        texts = {each.name: UNLISTED for each in profile.options if has_image and each.entries[-1].slug == UNLISTED}
        return profile.find_pick({**texts, **{name: each for name, each in chosen.items() if each is not None}})

    @override
    async def answer(
        self, options: Mapping[str, object], persons: Sequence[Person], *, preferred: Iterable[int] = ()
    ) -> HubAnswer:
        found = {number: self._admit(options, person) for number, person in enumerate(persons)}
        allowed = {number: each for number, each in found.items() if each is not None}
        place = next((number for number in preferred if number in allowed), next(iter(allowed), None))
        server = None if place is None else await self._build(allowed[place])
        return HubAnswer(allowed=frozenset(allowed), server=server)

    def _admit(self, options: Mapping[str, object], person: Person) -> Admission | None:
        """Return the user's choice and what its pod must contain; None if the policy denies this choice to the user."""
        if person not in self._allowances:
            policy = self._catalog.policy
            rule = Rule() if policy is None else resolve_rule(policy, person)
            self._allowances[person] = Allowance(full_catalog=self._catalog, person=person, rule=rule)
        allowance = self._allowances[person]
        # Users with an equal key get the same result. Cache it, because a hub may have many users.
        key = (repr(options), self._number_rule(allowance.rule), self._list_relevant(options, person))
        if key not in self._admissions:
            try:
                self._admissions[key] = admit(options, allowance, unread_types=self._unread)
            except UnreadClusterError as error:
                message = f"only the cluster's nodes say it: {error}"
                raise UncomparedError(message) from error
            except PolicyError:
                self._admissions[key] = None
            except SelectionError as error:
                message = f"gpuspawner refuses it: {error}"
                raise RefusedError(message) from error
        return self._admissions[key]

    def _number_rule(self, rule: Rule) -> int:
        if rule not in self._rules:
            self._rules.append(rule)
        return self._rules.index(rule)

    def _list_relevant(self, options: Mapping[str, object], person: Person) -> frozenset[AccessKey]:
        """Return the keys in the policy's ``access`` that the options may name and that the user may have."""
        access = self._catalog.policy.access if self._catalog.policy is not None else {}
        preset, chosen = options.get("preset"), as_dict(options.get(PRESET_CHOICES))
        return frozenset(
            key for key, each in access.items() if _may_mean(key, preset, chosen=chosen) and each.admits(person)
        )

    async def _build(self, admission: Admission) -> Server:
        spawner, placement = self._spawner, admission.placement
        choice = PodChoice(placement=placement, resources=list_gpu_resources(self._catalog))
        try:
            if placement.start_timeout_s is not None:
                spawner.trait_overrides.assign({"start_timeout": placement.start_timeout_s})
            apply_choice(spawner, choice)
            pod = await spawner.get_pod_manifest()
            if spawner.modify_pod_hook:
                pod = await maybe_future(spawner.modify_pod_hook(spawner, pod))
            return Server(
                manifest=serialize_pod(spawner, pod),
                traits=read_traits(spawner),
                is_ours=True,
                avoided=build_preferences(placement.avoided),
            )
        except Exception as error:
            message = f"KubeSpawner refuses it: {type(error).__name__}: {error}"
            raise RefusedError(message) from error
        finally:
            spawner.trait_overrides.restore()


def _may_mean(key: AccessKey, preset: object, *, chosen: Mapping[str, Any]) -> bool:
    """Return whether user options may name the image, GPU type, preset or preset's choice that a key names.

    Options with a preset cannot name another preset or its choices, nor a choice that they do not pick in a list.

    :param key: for example ``("preset", "small", "memory", "mem-16")``; see :data:`.AccessKey`.
    :param preset: slug of the preset that the user options name; None = they name none.
    :param chosen: name of a list in the preset → slug of the picked choice. A missing list means any choice.
    """
    kind, slug, *entry = key
    if kind != "preset" or preset is None:
        return True
    return slug == preset and (not entry or chosen.get(entry[0], entry[1]) == entry[1])


def _assemble_catalog(config: Config, settings: ParsedSettings) -> Catalog:
    """Return the catalog of a hub that has read no node.

    In this catalog, CPU, memory and numbers of GPUs have a maximum only if the settings give one.
    """
    own = read_configured_resources(config)
    image = get_configured_trait(config, "image") or FALLBACK_IMAGE
    inventory = Inventory(reason="The values do not say which nodes there are.")
    catalog = assemble_catalog(settings.configured, inventory, table=settings.table, fallback_image=image, own=own)
    return replace(
        catalog,
        cpu=catalog.cpu or CPU.make_bounds(UNLIMITED, own.cpu),
        memory=catalog.memory or MEMORY.make_bounds(UNLIMITED, own.memory),
        gpus={slug: _open_count(gpu, settings.configured) for slug, gpu in catalog.gpus.items()},
    )


def _open_count(gpu: Any, configured: ConfiguredCatalog) -> Any:
    return replace(gpu, max_count=_MANY_GPUS) if gpu.slug in configured.uncounted else gpu


def _read_preset(preset: Preset) -> MenuProfile:
    options = (_read_choice(each) for each in preset.choices.values())
    return MenuProfile(
        slug=preset.slug, title=preset.display_name, options=tuple(each for each in options if each.entries)
    )


def _read_choice(choice: PresetChoice) -> MenuOption:
    entries = [
        MenuEntry(slug=slug, title=each.display_name, is_default=number == 0)
        for number, (slug, each) in enumerate(choice.entries.items())
    ]
    if choice.custom_image is not None:
        pattern = choice.custom_image.pattern
        title = choice.custom_image.label or "Other…"
        entries.append(MenuEntry(slug=UNLISTED, title=title, text=_find_example(pattern), pattern=pattern))
    return MenuOption(name=choice.name, title=choice.display_name, entries=tuple(entries))


def _read_form(catalog: Catalog) -> MenuProfile:
    images = [MenuEntry(slug=slug, title=each.display_name) for slug, each in catalog.images.items()]
    gpus = [MenuEntry(slug=slug, title=each.display_name) for slug, each in catalog.gpus.items()]
    none = MenuEntry(slug="", title="none", is_default=True)
    return MenuProfile(
        slug=FORM,
        title="Form",
        options=(
            MenuOption(name="image", title="Image", entries=tuple(images)),
            MenuOption(name="gpu", title="GPU", entries=(none, *gpus)),
        ),
    )


def _list_names(catalog: Catalog) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the groups and of the users that the admin's policy names."""
    policy = catalog.policy
    if policy is None:
        return (), ()
    groups = [*policy.groups, *(group for pool in policy.pools.values() for group in sorted(pool.groups))]
    users = [*policy.users]
    for each in policy.access.values():
        groups += sorted(each.groups)
        users += sorted(each.users)
    return tuple(dict.fromkeys(groups)), tuple(dict.fromkeys(users))
