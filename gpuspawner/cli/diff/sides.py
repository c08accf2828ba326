"""One of the two values files, as a hub would use it: what users can choose, and the pod of each choice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kubespawner import KubeSpawner
from traitlets import TraitError
from traitlets.config import Config
from typing_extensions import override

from gpuspawner.cli.cluster.cluster_view import FALLBACK_IMAGE, read_configured_resources
from gpuspawner.cli.cluster.offline_spawner import make_offline_spawner
from gpuspawner.cli.diff.choices import Menu, UserOptions
from gpuspawner.cli.values.chart_config import (
    OUR_CLASSES,
    build_spawner_config,
    get_chart_value,
    get_configured_trait,
    make_settings_parser,
)
from gpuspawner.cli.values.helm_values import HelmValues, merge_settings, require_sections
from gpuspawner.core.catalog.model import Catalog
from gpuspawner.core.catalog.policy_model import UNLIMITED, Person
from gpuspawner.core.cluster.state import Inventory
from gpuspawner.core.discovery.build_catalog import assemble_catalog
from gpuspawner.core.errors import Problem, SelectionError, SettingsError
from gpuspawner.core.json_access import as_dict, as_text
from gpuspawner.core.request.field_definitions import CPU, MEMORY
from gpuspawner.core.request.pod_requirements import ANNOTATION_PREFIX, place
from gpuspawner.core.request.selection import validate
from gpuspawner.hub.admission.profiles import names_profile
from gpuspawner.hub.config.offer import OfferFactory
from gpuspawner.hub.kubespawner import private_api
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.hub.pod.patch import PodChoice, apply_choice, list_gpu_resources
from gpuspawner.hub.pod.preview import serialize_pod
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.settings import FORM_SECTIONS, Settings

_USER = Person(name="user")
_NAMESPACE = "jhub"
_NO_CHOICE = {"no choice": Menu()}
_MANY_GPUS = 1 << 16
"""Maximum number of GPUs for a GPU type without ``max_count``; a hub would read the maximum from the nodes."""
_EXAMPLES = ("registry.example.org/team/image:1.0", "8G", "1", "text")
"""Examples of what a user writes; :func:`_find_example` takes the first one that the field's pattern matches."""
_LITERAL_START = re.compile(r"\^?([\w./:\\-]*)", re.ASCII)
"""Matches the plain text with which a regular expression begins, such as ``team/`` in ``^team/[a-z]+``."""
REFUSAL = "refusal"
"""Key of the reason in what :meth:`Side.build` returns for a choice that the hub refuses."""
_BROKEN_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, TraitError, re.error)
"""Types of the errors that KubeSpawner raises if it cannot read a profile or build its pod."""
_TRAITS = ("start_timeout", "http_timeout", "storage_pvc_ensure", "storage_capacity", "storage_class")
"""Traits that matter to users and that the pod's manifest does not show."""


def open_side(values: HelmValues) -> Side:
    """Return the side of a values file; with settings of gpuspawner, it is a :class:`SettingsSide`.

    Call this function only inside the context manager :func:`gpuspawner.cli.cluster.offline_spawner.share_connection`.

    :raises SettingsError: KubeSpawner or gpuspawner does not accept the values.
    """
    values = HelmValues(merged=_sort_keys(values.chart))  # Helm sorts keys, and KubeSpawner's default is the first key.
    require_sections(values)
    config = build_spawner_config(values.chart, namespace=_NAMESPACE)
    raw = {name: value for name, value in merge_settings(values).items() if value is not None}
    settings = OfferFactory(make_settings_parser(values.chart)).parse(raw)
    is_ours = get_chart_value(values.chart, "hub.config.JupyterHub.spawner_class") in OUR_CLASSES
    has_profiles = bool(get_configured_trait(config, "profile_list"))
    if not is_ours or (has_profiles and settings.changed.isdisjoint(FORM_SECTIONS)):
        return Side(config)
    return SettingsSide(config, settings)


def _sort_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sort_keys(value[key]) for key in sorted(value, key=str)}
    return [_sort_keys(entry) for entry in value] if isinstance(value, list) else value


class Side:
    """One of the two compared values files, as a hub would use it. KubeSpawner builds the pods.

    :ivar menus: what users can choose: the profiles of a ``profile_list``, or nothing.
    :ivar left_out: sentences about choices that are not in ``menus``.
    """

    def __init__(self, config: Config) -> None:
        self.menus: dict[str, Menu] = dict(_NO_CHOICE)
        self.left_out: list[str] = []
        self._config = config
        spawner = make_offline_spawner(KubeSpawner, config=config, person=_USER)
        try:
            listed = private_api.list_profiles(spawner, spawner.profile_list or [])
            self._profiles = private_api.complete_profiles(spawner, listed)
            for profile in self._profiles:
                # Of several profiles with one slug, KubeSpawner takes the first.
                self.menus.setdefault(f"profile {profile['slug']}", self._read_profile(profile))
        except _BROKEN_VALUES as error:
            message = f"KubeSpawner cannot read it ({type(error).__name__}: {error}); gpuspawner check names the place"
            raise SettingsError(Problem(field="profile_list", code="bad_value", message=message)) from error

    async def build(self, options: UserOptions) -> dict[str, Any]:
        """Return the pod of a choice as JSON, without what gpuspawner notes in it, and some traits beside the pod.

        For a choice that the hub refuses, the result only has a reason: :data:`REFUSAL`.
        """
        try:
            spawner = await self._load(options)
            manifest = serialize_pod(spawner, await spawner.get_pod_manifest())
        except SelectionError as error:
            return {REFUSAL: str(error)}
        except _BROKEN_VALUES as error:
            return {REFUSAL: f"{type(error).__name__}: {error}"}
        for kind in ("annotations", "labels"):
            texts = as_dict(manifest["metadata"].get(kind)).items()
            manifest["metadata"][kind] = {key: text for key, text in texts if not key.startswith(ANNOTATION_PREFIX)}
        return {**manifest, "KubeSpawner": {name: getattr(spawner, name) for name in _TRAITS}}

    def _read_profile(self, profile: Mapping[str, Any]) -> Menu:
        lists = {}
        for name, option in profile.get("profile_options", {}).items():
            choices = sorted(option.get("choices", {}).items(), key=lambda item: not item[1].get("default"))
            entries = {key: {name: key} for key, _ in choices}
            if option["unlisted_choice"]["enabled"]:
                pattern = as_text(option["unlisted_choice"].get("validation_regex"))
                title = f"a text like {pattern}" if pattern else "any text"
                if text := _find_example(pattern):
                    entries[title] = {f"{name}--unlisted-choice": text}
                else:
                    self.left_out.append(f"profile {profile['slug']} · {name}: {title} is left out: none is known.")
            if entries:
                lists[name] = entries
        return Menu(options={"profile": profile["slug"]}, lists=lists)

    async def _load(self, options: UserOptions) -> Any:
        """Return a new spawner whose traits have the values of a choice."""
        spawner = make_offline_spawner(KubeSpawner, config=self._config, person=_USER)
        spawner.user_options = dict(options)
        await spawner.load_user_options()
        return spawner


def _find_example(pattern: str) -> str:
    """Return a text that a text field accepts, or "" if no known text matches the field's pattern."""
    start = _LITERAL_START.match(pattern)
    literal = start[1].replace("\\", "") if start else ""
    return next((text for text in (*_EXAMPLES, f"{literal}image:1.0") if re.match(pattern, text)), "")


class SettingsSide(Side):
    """A hub with gpuspawner's fields, alone or beside profiles; gpuspawner puts a choice of fields into the pod."""

    def __init__(self, config: Config, settings: Settings) -> None:
        super().__init__(config)
        lenient = OfferFactory(partial(parse_settings, accepts_unknown_traits=True))  # The settings have been checked.
        self._kind: type[GPUSpawner] = type("GPUSpawner", (GPUSpawner,), {"offer_factory": lenient})
        self._catalog = _assemble_catalog(config, settings)
        make_offline_spawner(self._kind, config=config, person=_USER)  # KubeSpawner may refuse the configuration.
        self.menus |= _list_menus(self._catalog)
        if settings.configured.discover:
            self.left_out.append("GPU types that only the nodes show are left out.")

    @override
    async def _load(self, options: UserOptions) -> Any:
        if self._profiles and names_profile(options):
            return await super()._load(options)
        placement = place(validate(options, self._catalog), self._catalog)
        spawner = make_offline_spawner(self._kind, config=self._config, person=_USER)
        spawner.start_timeout = placement.start_timeout_s or spawner.start_timeout
        apply_choice(spawner, PodChoice(placement=placement, resources=list_gpu_resources(self._catalog)))
        return spawner


def _assemble_catalog(config: Config, settings: Settings) -> Catalog:
    """Return the catalog of a hub that has read no node.

    In this catalog, CPU, memory and numbers of GPUs have a maximum only if the settings give one.
    """
    own, configured = read_configured_resources(config), settings.configured
    catalog = assemble_catalog(
        configured,
        Inventory(reason="The values do not say which nodes there are."),
        table=settings.table,
        fallback_image=get_configured_trait(config, "image") or FALLBACK_IMAGE,
        own=own,
    )
    gpus = {
        slug: replace(gpu, max_count=_MANY_GPUS) if slug in configured.uncounted else gpu
        for slug, gpu in catalog.gpus.items()
    }
    return replace(
        catalog,
        cpu=catalog.cpu or CPU.make_bounds(UNLIMITED, own.cpu),
        memory=catalog.memory or MEMORY.make_bounds(UNLIMITED, own.memory),
        gpus=gpus,
    )


def _list_menus(catalog: Catalog) -> Iterator[tuple[str, Menu]]:
    """Yield the presets, and the form with its lists of images and GPU types."""
    for slug in catalog.presets:
        yield f"preset {slug}", Menu(options={"v": 1, "preset": slug})
    images: dict[str, UserOptions] = {slug: {"image": slug} for slug in catalog.images}
    gpus: dict[str, UserOptions] = {
        "none": {"gpu_count": 0},
        **{slug: {"gpu": slug, "gpu_count": 1} for slug in catalog.gpus},
    }
    yield "form", Menu(options={"v": 1}, lists={"image": images, "gpu": gpus})
