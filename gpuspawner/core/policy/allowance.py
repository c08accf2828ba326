"""Computes what one user may have now.

The form and :func:`~gpuspawner.core.policy.admission.admit` use the same :class:`Allowance`, so the form offers exactly
what a start accepts. The allowance's catalog contains only what the user may have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

from gpuspawner.core.catalog.image_reference import parse_reference
from gpuspawner.core.catalog.model import (
    NO_LIMIT,
    Bounds,
    Catalog,
    GPUType,
    Image,
    Preset,
    find_lowest_limit,
    narrow_bounds,
)
from gpuspawner.core.catalog.pod_gpus import PodGPUs
from gpuspawner.core.catalog.policy_model import UNLIMITED, AmountRange, Person, Rule
from gpuspawner.core.policy import denials
from gpuspawner.core.policy.denials import Denial
from gpuspawner.core.policy.gpu_limits import GPULimit, list_gpu_limits, list_possible_types, list_type_rules
from gpuspawner.core.policy.rules import resolve_rule
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.request.candidate import Candidate
from gpuspawner.core.request.field_definitions import CPU, IMAGE, MEMORY
from gpuspawner.core.request.fields import AmountField
from gpuspawner.core.request.selection import Selection, find_preset_errors
from gpuspawner.core.text.i18n import gettext
from gpuspawner.core.units.duration import format_duration
from gpuspawner.core.units.quantity import format_bare_cpus, format_exact_cpus, format_memory


class AllowedTypes(Mapping[str, GPUType]):
    """The GPU types that a user may have, by slug, in the catalog's order.

    A type's limits are computed at the first lookup of the type, because a start needs only one type of many.

    :param all_types: the catalog's types by slug.
    :param narrow: returns a type with the user's limits, None if the user may not have the type.
    """

    def __init__(self, all_types: Mapping[str, GPUType], narrow: Callable[[GPUType], GPUType | None]) -> None:
        self._types = all_types
        self._narrow = narrow
        self._known: dict[str, GPUType | None] = {}

    def __getitem__(self, slug: str) -> GPUType:
        if slug not in self._known:
            self._known[slug] = self._narrow(self._types[slug])
        found = self._known[slug]
        if found is None:
            raise KeyError(slug)
        return found

    def __iter__(self) -> Iterator[str]:
        return (slug for slug in self._types if slug in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class DeniedTypes(Sequence[GPUType]):
    """The GPU types that a user may not have.

    :param find_denied: yields the types; called once, at the first access.
    """

    def __init__(self, find_denied: Callable[[], Iterable[GPUType]]) -> None:
        self._find = find_denied

    @cached_property
    def _found(self) -> tuple[GPUType, ...]:
        return tuple(self._find())

    @overload
    def __getitem__(self, index: int) -> GPUType: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[GPUType, ...]: ...
    def __getitem__(self, index: int | slice) -> GPUType | tuple[GPUType, ...]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)


@dataclass(frozen=True, kw_only=True, eq=False)
class Allowance:
    """What one user may have now, in one more server.

    The hub makes a new allowance for each request. The allowance's texts are in the language of the request.

    :param full_catalog: the catalog without the user's limits.
    :param person: the server's user.
    :param rule: the user's rule, merged from the default, the groups' rules and the user's own rule.
    :param usage: what other servers use, and what the namespace's ResourceQuotas leave.
    """

    full_catalog: Catalog
    person: Person
    rule: Rule = field(default_factory=Rule)
    usage: Usage = field(default_factory=Usage)

    @cached_property
    def refusal(self) -> Denial | None:
        """Why the user may start no pod at all, whether of a profile or of the form's fields, or None."""
        policy, quota = self.full_catalog.policy, self.usage.quota
        if policy is not None and policy.depends_on_groups and self.person.groups is None:
            return Denial(field="", code=denials.POLICY_UNREADABLE, message=denials.explain_groups_unknown())
        if quota is not None and quota.has_no_pod_left:
            message = gettext("The cluster's quota leaves no room for one more server.")
            return Denial(field="", code=denials.NAMESPACE_QUOTA, message=message)
        return None

    @cached_property
    def blocked(self) -> Denial | None:
        """Why the user may start no server from the form's fields, or None."""
        if self.refusal is not None:
            return self.refusal
        if not self._select_images(self.full_catalog.images):
            message = gettext("None of the images that are offered is allowed for you. Please ask the hub's admins.")
            return Denial(field=IMAGE.name, code=denials.IMAGE_NOT_ALLOWED, message=message)
        return self._check_amount(CPU, None) or self._check_amount(MEMORY, None)

    @cached_property
    def complete_catalog(self) -> Catalog:
        """The full catalog. If it lacks bounds of CPU or memory, and the user has a limit, open bounds are added.

        The full catalog lacks bounds while neither the settings nor a node provides them. Open bounds have no maximum.
        """
        full = self.full_catalog
        if full.cpu is not None and full.memory is not None:
            return full
        return replace(
            full, cpu=full.cpu or self._make_open_bounds(CPU), memory=full.memory or self._make_open_bounds(MEMORY)
        )

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog with only what the user may have.

        User options that are valid for this catalog are admitted, except if ``blocked`` is set or
        :meth:`check_custom_image` denies the image.

        ``hidden`` also contains GPU types that the user may not have, so servers without a GPU stay off their nodes.
        """
        full, reach = self.full_catalog, self.reachable_catalog
        if reach is full:
            return full
        if self.blocked is not None:
            return replace(reach, presets={})
        errors = find_preset_errors(reach.presets, reach)
        return replace(reach, presets={slug: preset for slug, preset in reach.presets.items() if slug not in errors})

    @cached_property
    def reachable_catalog(self) -> Catalog:
        """Like :attr:`catalog`, but with all presets that ``allowed_groups`` and ``allowed_users`` let the user choose.

        A preset may set values which the user may not have, such as too much CPU.
        """
        full = self.full_catalog
        if self._is_unlimited:
            return full
        gpus = AllowedTypes(full.gpus, self._narrow_type)
        # Leave out combined types ("any of these GPU types"): they have no nodes of their own.
        denied = DeniedTypes(
            lambda: (
                *full.hidden,
                *(gpu for slug, gpu in full.gpus.items() if slug not in gpus and not gpu.members),
            )
        )
        if self.blocked is not None:
            return replace(full, gpus={}, custom_images=None, hidden=denied)
        max_run_time_s = self.find_max_run_time_s(None)
        return replace(
            full,
            images=self._select_images(full.images),
            presets=self._select_presets(full.presets),
            custom_images=None if self.check_custom_image() else full.custom_images,
            cpu=self._narrow_amount(CPU),
            memory=self._narrow_amount(MEMORY),
            gpus=gpus,
            hidden=denied,
            run_time=narrow_bounds(full.run_time, most=max_run_time_s),
            max_runtime_s=max_run_time_s,
        )

    def check_image(self, slug: str) -> Denial | None:
        """Return why the user may not use an image, or None."""
        if self.blocked is not None:
            return self.blocked
        if self._allows_image(slug):
            return None
        image = self.full_catalog.images.get(slug)
        message = denials.explain_image_not_allowed(slug if image is None else image.display_name)
        return Denial(field=IMAGE.name, code=denials.IMAGE_NOT_ALLOWED, message=message)

    def check_preset(self, slug: str) -> Denial | None:
        """Return why the user may not choose a preset, or None."""
        if self._admits("preset", slug):
            return None
        name = self.full_catalog.presets[slug].display_name
        message = gettext("You don't have access to the preset {name}.", name=name)
        return Denial(field="preset", code=denials.PRESET_NOT_ALLOWED, message=message)

    def check_custom_image(self, reference: str = "") -> Denial | None:
        """Return why the user may not use a custom image (an image named by reference), or None.

        :param reference: full reference of the image; empty to ask whether the user may use custom images at all.
        """
        return self.blocked or self._check_named_image(reference)

    def _check_named_image(self, reference: str) -> Denial | None:
        if self.rule.custom_images is not False:
            return self._check_listed_reference(reference)
        message = gettext("You may only use images from the list.")
        return Denial(field="custom_image", code=denials.CUSTOM_IMAGE_NOT_ALLOWED, message=message)

    def _check_listed_reference(self, reference: str) -> Denial | None:
        """Return a denial if the settings list the image, but only for other users; otherwise None."""
        found = parse_reference(reference) if reference else None
        if found is None or self.full_catalog.policy is None:
            return None
        same = [
            each.slug
            for each in self.full_catalog.images.values()
            if (listed := parse_reference(each.image)) is not None and listed.pulled == found.pulled
        ]
        if not same or any(self._admits(IMAGE.name, slug) for slug in same):
            return None
        message = denials.explain_image_not_allowed(reference)
        return Denial(field="custom_image", code=denials.CUSTOM_IMAGE_NOT_ALLOWED, message=message)

    def check_gpu(self, slug: str) -> Denial | None:
        """Return why the user's next server may not have even one GPU of a type, or None."""
        return self._check_gpu_count(slug, 1, field_name="gpu")

    def find_max_count(self, slug: str) -> int:
        """Return how many GPUs of a type the user's next server may have; 0 = none."""
        gpu = self.full_catalog.gpus.get(slug)
        if self.blocked is not None or gpu is None:
            return 0
        return max(0, min([gpu.max_count, *(each.left for each in self._list_gpu_limits(gpu))]))

    def find_max_run_time_s(self, slug: str | None) -> int | None:
        """Return the longest run time of a server in seconds; None = no limit.

        :param slug: slug of the server's GPU type, None without a GPU.
        """
        return self._find_longest_s(None if slug is None else self.full_catalog.gpus.get(slug))

    def check_selection(self, selection: Selection) -> tuple[Denial, ...]:
        """Return the denials of a selection, at most one for each field; empty if the user may have the selection.

        :param selection: a selection that is valid in ``complete_catalog``.
        """
        if self.blocked is not None:
            return (self.blocked,)
        run_time = self._check_run_time(selection)
        gpu = selection.gpu
        found = (
            self.check_image(selection.image)
            if selection.custom_image is None
            else self.check_custom_image(selection.custom_image),
            self._check_amount(CPU, selection.cpu_millis),
            self._check_amount(MEMORY, selection.memory_bytes),
            None
            if gpu is None
            else self.check_gpu(gpu) or self._check_gpu_count(gpu, selection.gpu_count, field_name="gpu_count"),
            run_time,
        )
        return tuple(each for each in found if each is not None)

    def check_candidate(self, candidate: Candidate) -> tuple[Denial, ...]:
        """Return the denials of a start by its pod, at most one for each field; empty if the user may have the pod."""
        if self.refusal is not None:
            return (self.refusal,)
        found = (
            self._check_named_image(candidate.custom_image) if candidate.custom_image else None,
            *(
                self._check_range(each, limit) or self._check_quota(each, limit, request=request)
                for each, (limit, request) in ((CPU, candidate.cpu), (MEMORY, candidate.memory))
            ),
            self._check_pod_gpus(candidate),
        )
        return tuple(denial for denial in found if denial is not None)

    def _check_pod_gpus(self, candidate: Candidate) -> Denial | None:
        """Return why the user may not have a pod's GPUs, or None.

        The user must be allowed each type that the pod may get, because kube-scheduler picks one of them later.
        """
        if self._is_unlimited:
            return None
        if not candidate.is_gpu_count_known:
            message = gettext("The number of GPUs must be a whole number.")
            return Denial(field="gpu", code=denials.GPU_NOT_ALLOWED, message=message)
        gpus = candidate.gpus
        limits = [limit for gpu in self.list_possible_types(gpus) for limit in self._list_gpu_limits(gpu)]
        return _find_denial(limits, gpus.count, field_name="gpu")

    def list_possible_types(self, gpus: PodGPUs) -> tuple[GPUType, ...]:
        """Return the GPU types that a pod may get, each of which the user has to be allowed; none without a GPU."""
        if not gpus.count:
            return ()
        return list_possible_types(gpus, self.full_catalog, person=self.person, rule=self.rule)

    def find_pod_run_time_s(self, gpus: PodGPUs) -> int | None:
        """Return the longest run time of a pod in seconds; None = no limit.

        :param gpus: the pod's GPUs. If the pod may get several types, the shortest time of these types applies.
        """
        return find_lowest_limit(*map(self._find_longest_s, self.list_possible_types(gpus) or (None,)))

    def _find_longest_s(self, gpu: GPUType | None) -> int | None:
        limits = [self.full_catalog.max_runtime_s, self.rule.max_runtime_s]
        if gpu is not None:
            limits += [gpu.max_runtime_s, *(rule.max_runtime_s for _, rule in list_type_rules(gpu, self.rule))]
        return find_lowest_limit(*(limit for limit in limits if limit != UNLIMITED))

    def describe_usage(self) -> str:
        """Return how many GPUs the user's other servers use and how many the user may have, as text.

        The result is "" if the user's total is not limited, if this limit is 0, or if the GPUs in use are unknown.
        """
        most = self.rule.max_gpus
        if not most or most >= UNLIMITED or not self.usage.known:
            return ""
        used = sum(server.count for server in self.usage.own)
        if used > most:
            return gettext("{used} GPUs in use by you, you may have {most} at a time", used=used, most=most)
        return gettext("{used} of {most} GPUs in use by you", used=used, most=most)

    @property
    def _is_unlimited(self) -> bool:
        return self.full_catalog.policy is None and self.usage.quota is None

    def _list_gpu_limits(self, gpu: GPUType) -> tuple[GPULimit, ...]:
        if self._is_unlimited:
            return ()
        return list_gpu_limits(gpu, self.full_catalog, person=self.person, rule=self.rule, usage=self.usage)

    def _check_gpu_count(self, slug: str, count: int, *, field_name: str) -> Denial | None:
        if self.blocked is not None:
            return self.blocked
        gpu = self.full_catalog.gpus.get(slug)
        if gpu is not None:
            return _find_denial(self._list_gpu_limits(gpu), count, field_name=field_name)
        return Denial(field="gpu", code=denials.GPU_NOT_ALLOWED, message=denials.explain_not_allowed(slug))

    def _narrow_type(self, gpu: GPUType) -> GPUType | None:
        most = self.find_max_count(gpu.slug)
        return replace(gpu, max_count=most, max_runtime_s=self.find_max_run_time_s(gpu.slug)) if most > 0 else None

    def _narrow_amount(self, amount_field: AmountField) -> Bounds | None:
        own = self._narrow_by_rule(amount_field)
        return narrow_bounds(own, most=self._find_quota_room(amount_field, own))

    def is_narrowed_by_quota(self, amount_field: AmountField) -> bool:
        """Return whether a ResourceQuota leaves less of CPU or memory than the user could have without it."""
        own = self._narrow_by_rule(amount_field)
        room = self._find_quota_room(amount_field, own)
        return own is not None and room is not None and room < own.max

    def _narrow_by_rule(self, amount_field: AmountField) -> Bounds | None:
        allowed = self._get_range(amount_field)
        return narrow_bounds(getattr(self.complete_catalog, amount_field.name), least=allowed.min, most=allowed.max)

    def _make_open_bounds(self, amount_field: AmountField) -> Bounds | None:
        bounds = amount_field.make_bounds(UNLIMITED, getattr(self.full_catalog.own, amount_field.name))
        limits = (self._get_range(amount_field).max, self._find_quota_room(amount_field, bounds))
        return bounds if find_lowest_limit(*limits, UNLIMITED) != UNLIMITED else None

    def _get_range(self, amount_field: AmountField) -> AmountRange:
        found: AmountRange | None = getattr(self.rule, amount_field.name)
        return found or AmountRange()

    def _find_quota_room(self, amount_field: AmountField, bounds: Bounds | None) -> int | None:
        if self.usage.quota is None or bounds is None:
            return None
        left = self.usage.quota.left
        requests = left.get(f"requests.{amount_field.name}")
        most = None if requests is None else bounds.find_most_requested(requests)
        return find_lowest_limit(left.get(f"limits.{amount_field.name}"), most)

    def _select_images(self, images: Mapping[str, Image]) -> dict[str, Image]:
        return {slug: image for slug, image in images.items() if self._allows_image(slug)}

    def _allows_image(self, slug: str) -> bool:
        return self.rule.allows_image(slug) and self._admits(IMAGE.name, slug)

    def _admits(self, *key: str) -> bool:
        policy = self.full_catalog.policy
        return policy is None or policy.admits(self.person, *key)

    def _select_presets(self, presets: Mapping[str, Preset]) -> dict[str, Preset]:
        return {slug: preset for slug, preset in presets.items() if self._admits("preset", slug)}

    def _check_range(self, amount_field: AmountField, limit: int) -> Denial | None:
        """Return why the user's rule denies the CPU or memory of a pod, or None.

        :param limit: the pod's limit in millicores or bytes, ``NO_LIMIT`` without one.
        """
        allowed = self._get_range(amount_field)
        least, most = allowed.min or 0, UNLIMITED if allowed.max is None else allowed.max
        amount = UNLIMITED if limit == NO_LIMIT else limit
        if least <= amount <= most:
            return None
        code = denials.CPU_NOT_ALLOWED if amount_field is CPU else denials.MEMORY_NOT_ALLOWED
        return Denial(field=amount_field.name, code=code, message=_explain_range(amount_field, amount, allowed=allowed))

    def _check_quota(self, amount_field: AmountField, limit: int, *, request: int) -> Denial | None:
        """Return why the namespace's ResourceQuotas leave no room for the CPU or memory of a pod, or None.

        A quota on limits also refuses a pod without a limit, and a quota on requests a pod without a request.

        :param limit: the pod's limit in millicores or bytes, ``NO_LIMIT`` without one.
        :param request: the pod's request in millicores or bytes, ``NO_LIMIT`` without one.
        """
        left = self.usage.quota.left if self.usage.quota is not None else {}
        for kind, amount in (("limits", limit), ("requests", request)):
            room = left.get(f"{kind}.{amount_field.name}")
            if room is not None and (amount == NO_LIMIT or amount > room):
                message = gettext("The cluster's quota leaves no room for this server.")
                return Denial(field=amount_field.name, code=denials.NAMESPACE_QUOTA, message=message)
        return None

    def _check_amount(self, amount_field: AmountField, amount: int | None) -> Denial | None:
        """Return why an amount of CPU or memory is denied, or None if the amount is allowed.

        If ``amount`` is None, return why every amount is denied, or None if at least one amount is allowed.
        """
        name = amount_field.name
        full, own = getattr(self.complete_catalog, name), self._narrow_by_rule(amount_field)
        if full is None or (own is full and self.usage.quota is None):
            return None
        if own is None or (amount is not None and not own.min <= amount <= own.max):
            code = denials.CPU_NOT_ALLOWED if amount_field is CPU else denials.MEMORY_NOT_ALLOWED
            return Denial(field=name, code=code, message=_explain_amount(name, own))
        room = self._narrow_amount(amount_field)
        if room is None or (amount is not None and amount > room.max):
            return Denial(field=name, code=denials.NAMESPACE_QUOTA, message=_explain_quota_room(name, room))
        return None

    def _check_run_time(self, selection: Selection) -> Denial | None:
        longest, asked = self.find_max_run_time_s(selection.gpu), selection.run_time_s
        if longest is None or asked is None or asked <= longest:
            return None
        message = gettext(
            "A server like this may run for {longest} at most, not for {value}.",
            longest=format_duration(longest),
            value=format_duration(asked),
        )
        return Denial(field="run_time", code=denials.RUN_TIME_NOT_ALLOWED, message=message)


def _find_denial(limits: Iterable[GPULimit], count: int, *, field_name: str) -> Denial | None:
    """Return the denial of a number of GPUs by the tightest limit; None if all limits leave as many."""
    tightest = min(limits, key=lambda limit: (not limit.is_permanent, limit.left), default=None)
    if tightest is None or count <= tightest.left:
        return None
    return Denial(field=field_name, code=tightest.code, message=tightest.explain())


def resolve_allowance(catalog: Catalog, person: Person, *, usage: Usage) -> Allowance:
    """Return what a user may have now.

    :param catalog: the catalog without any user's limits; its ``policy`` has the admin's rules.
    :param usage: what other servers use, and what the namespace's ResourceQuotas leave.
    """
    rule = Rule() if catalog.policy is None else resolve_rule(catalog.policy, person)
    return Allowance(full_catalog=catalog, person=person, rule=rule, usage=usage)


def _explain_range(amount_field: AmountField, amount: int, *, allowed: AmountRange) -> str:
    most = UNLIMITED if allowed.max is None else allowed.max
    limit = amount_field.notation.show(most if amount > most else allowed.min or 0)
    if amount_field is CPU:
        if amount > most:
            return gettext("You may not have more than {most}.", most=limit)
        return gettext("You may not have less than {least}.", least=limit)
    if amount > most:
        return gettext("You may not have more than {most} of memory.", most=limit)
    return gettext("You may not have less than {least} of memory.", least=limit)


def _explain_amount(name: str, bounds: Bounds | None) -> str:
    if name == "cpu":
        return _explain_cpu(bounds)
    if bounds is None:
        return gettext(
            "None of the amounts of memory that are offered is allowed for you. Please ask the hub's admins."
        )
    least, most = format_memory(bounds.min), format_memory(bounds.max)
    if bounds.min == bounds.max:
        return gettext("You may have {amount} of memory.", amount=most)
    return gettext("You may have {least} to {most} of memory.", least=least, most=most)


def _explain_cpu(bounds: Bounds | None) -> str:
    if bounds is None:
        return gettext("None of the amounts of CPU that are offered is allowed for you. Please ask the hub's admins.")
    most = format_exact_cpus(bounds.max)
    if bounds.min == bounds.max:
        return gettext("You may have {amount}.", amount=most)
    return gettext("You may have {least} to {most}.", least=format_bare_cpus(bounds.min), most=most)


def _explain_quota_room(name: str, bounds: Bounds | None) -> str:
    if bounds is None:
        return gettext("The cluster's quota leaves no room for one more server.")
    if name == "cpu":
        return gettext("The cluster's quota leaves {most}.", most=format_exact_cpus(bounds.max))
    return gettext("The cluster's quota leaves {most} of memory.", most=format_memory(bounds.max))
