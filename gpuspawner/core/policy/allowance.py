"""What one person may have now: the one rule book that the form and the gate share.

What a form offers and what the gate lets through are the same by construction: both ask the same :class:`Allowance`,
and its catalogue, to which everything out of reach does not belong, is what choices are checked against.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from gpuspawner.core.catalog.catalogue import Bounds, Catalogue, GPUType
from gpuspawner.core.catalog.narrowing import least_of, within
from gpuspawner.core.catalog.policy_rules import UNLIMITED, Person, Range, Rule
from gpuspawner.core.errors import PolicyError, SelectionError
from gpuspawner.core.policy import denials
from gpuspawner.core.policy.ceilings import Ceiling, ceilings, type_rules
from gpuspawner.core.policy.denials import Denial
from gpuspawner.core.policy.in_reach import Beyond, InReach
from gpuspawner.core.policy.policy import limits_of
from gpuspawner.core.policy.usage import Usage
from gpuspawner.core.request.selection import Selection, invalid_presets, validate
from gpuspawner.core.text.language import gettext
from gpuspawner.core.units.duration import format_duration
from gpuspawner.core.units.quantity import format_cpu, format_memory
from gpuspawner.core.units.words import cpu_text


@dataclass(frozen=True, kw_only=True, eq=False)
class Allowance:
    """What one person may have now, in one more server.

    Made for each request anew, in the language of the request.

    :param everything: the catalogue that holds for everybody.
    :param rule: what all rules come to for the person.
    :param usage: what is in use besides the server that is asked about.
    """

    everything: Catalogue
    person: Person
    rule: Rule = field(default_factory=Rule)
    usage: Usage = field(default_factory=Usage)

    @cached_property
    def blocked(self) -> Denial | None:
        """Why nothing at all may be started, None where something may."""
        policy, quota = self.everything.policy, self.usage.quota
        if policy is not None and policy.asks_for_groups and self.person.groups is None:
            return Denial(field="", code=denials.POLICY_UNREADABLE, message=denials.ungrouped())
        if quota is not None and quota.left.get("pods", 1) < 1:
            message = gettext("The cluster's quota leaves no room for one more server.")
            return Denial(field="", code=denials.NAMESPACE_QUOTA, message=message)
        if not any(self.rule.has_image(slug) for slug in self.everything.images):
            message = gettext("None of the images that are offered is allowed for you. Please ask the hub's admins.")
            return Denial(field="image", code=denials.IMAGE_NOT_ALLOWED, message=message)
        return self._amount_denial("cpu", None) or self._amount_denial("memory", None)

    @cached_property
    def catalogue(self) -> Catalogue:
        """What is in reach: what validates against it is what the gate lets through, unless all is blocked.

        GPU types out of reach are among ``hidden``, so that servers without a GPU stay off their nodes.
        """
        full, reach = self.everything, self.reach
        if reach is full:
            return full
        if self.blocked is not None:
            return replace(reach, presets={})
        wrong = invalid_presets(full.presets, reach)
        return replace(reach, presets={slug: each for slug, each in full.presets.items() if slug not in wrong})

    @cached_property
    def reach(self) -> Catalogue:
        """The same with all presets, of which single fields may be changed to what is in reach."""
        full = self.everything
        if self._is_all:
            return full
        gpus = InReach(full.gpus, self._narrowed)
        # What stands for several types has no nodes of its own.
        beyond = Beyond(
            lambda: (
                *full.hidden,
                *(gpu for slug, gpu in full.gpus.items() if slug not in gpus and not gpu.members),
            )
        )
        if self.blocked is not None:
            return replace(full, gpus={}, custom_images=None, hidden=beyond)
        longest = self.longest_s(None)
        return replace(
            full,
            images={slug: image for slug, image in full.images.items() if self.rule.has_image(slug)},
            custom_images=None if self.custom_image() else full.custom_images,
            cpu=self._bounds("cpu"),
            memory=self._bounds("memory"),
            gpus=gpus,
            hidden=beyond,
            run_time=within(full.run_time, most=longest),
            max_runtime_s=longest,
        )

    def image(self, slug: str) -> Denial | None:
        """Return why an image may not be used, None where it may."""
        if self.blocked is not None:
            return self.blocked
        if self.rule.has_image(slug):
            return None
        image = self.everything.images.get(slug)
        message = gettext(
            "{name} is not among the images that you may use.", name=slug if image is None else image.display_name
        )
        return Denial(field="image", code=denials.IMAGE_NOT_ALLOWED, message=message)

    def custom_image(self) -> Denial | None:
        """Return why no image may be named by its reference, None where one may, as far as anybody may."""
        if self.blocked is not None:
            return self.blocked
        if self.rule.custom_images is not False:
            return None
        message = gettext("You may only use images from the list.")
        return Denial(field="custom_image", code=denials.CUSTOM_IMAGE_NOT_ALLOWED, message=message)

    def gpu(self, slug: str) -> Denial | None:
        """Return why not even one GPU of a type may be had in this server, None where one may."""
        return self._count_denial(slug, 1, of="gpu")

    def most(self, slug: str) -> int:
        """Return how many GPUs of a type this server may have, 0 where none."""
        gpu = self.everything.gpus.get(slug)
        if self.blocked is not None or gpu is None or self.rule.of_type(slug) is None:
            return 0
        return max(0, min([gpu.max_count, *(each.left for each in self._ceilings(gpu))]))

    def most_text(self, slug: str) -> str:
        """Return why no more GPUs of a type may be had, empty where the type itself allows no more."""
        gpu = self.everything.gpus.get(slug)
        refused = None if gpu is None else self._count_denial(slug, gpu.max_count, of="gpu_count")
        return "" if refused is None else refused.message

    def longest_s(self, slug: str | None) -> int | None:
        """Return the seconds after which a server is stopped at the latest, None = never.

        :param slug: of its GPU type, None without a GPU.
        """
        limits = [self.everything.max_runtime_s, self.rule.max_runtime_s]
        if slug is not None and (gpu := self.everything.gpus.get(slug)) is not None:
            limits += [gpu.max_runtime_s, *(rule.max_runtime_s for _, rule in type_rules(gpu, self.rule))]
        return least_of(*(limit for limit in limits if limit != UNLIMITED))

    def rule_on(self, selection: Selection) -> tuple[Denial, ...]:
        """Return why a choice is refused, one denial for each field; none where it is let through.

        :param selection: of the catalogue that holds for everybody.
        """
        if self.blocked is not None:
            return (self.blocked,)
        gpu = selection.gpu
        found = (
            self.image(selection.image) if selection.custom_image is None else self.custom_image(),
            self._amount_denial("cpu", selection.cpu_millis),
            self._amount_denial("memory", selection.memory_bytes),
            None if gpu is None else self.gpu(gpu) or self._count_denial(gpu, selection.gpu_count, of="gpu_count"),
            self._run_time_denial(selection),
        )
        return tuple(each for each in found if each is not None)

    def in_use_text(self) -> str:
        """Return how many of their GPUs the person's other servers hold; empty where there is no limit of them."""
        most = self.rule.max_gpus
        if not most or most >= UNLIMITED or not self.usage.known:
            return ""
        used = sum(server.count for server in self.usage.own)
        if used > most:
            return gettext("{used} GPUs in use by you, you may have {most} at a time", used=used, most=most)
        return gettext("{used} of {most} GPUs in use by you", used=used, most=most)

    @property
    def _is_all(self) -> bool:
        return self.everything.policy is None and self.usage.quota is None

    def _ceilings(self, gpu: GPUType) -> tuple[Ceiling, ...]:
        if self._is_all:
            return ()
        return ceilings(gpu, self.everything, person=self.person, rule=self.rule, usage=self.usage)

    def _count_denial(self, slug: str, count: int, *, of: str) -> Denial | None:
        if self.blocked is not None:
            return self.blocked
        gpu = self.everything.gpus.get(slug)
        if gpu is None or self.rule.of_type(slug) is None:
            message = gettext(
                "{name} is not among the GPUs that you may use.", name=slug if gpu is None else gpu.display_name
            )
            return Denial(field="gpu", code=denials.GPU_NOT_ALLOWED, message=message)
        binding = min(self._ceilings(gpu), key=lambda each: (not each.is_never, each.left), default=None)
        if binding is None or count <= binding.left:
            return None
        return Denial(field=of, code=binding.code, message=binding.say())

    def _narrowed(self, gpu: GPUType) -> GPUType | None:
        most = self.most(gpu.slug)
        return replace(gpu, max_count=most, max_runtime_s=self.longest_s(gpu.slug)) if most > 0 else None

    def _bounds(self, name: str) -> Bounds | None:
        full: Bounds | None = getattr(self.everything, name)
        said: Range = getattr(self.rule, name) or Range()
        own = within(full, least=said.min, most=said.max)
        return within(own, most=self._room(name, full))

    def _room(self, name: str, bounds: Bounds | None) -> int | None:
        """Return the largest limit of CPU or memory that the namespace's quota leaves room for, None = any."""
        if self.usage.quota is None or bounds is None:
            return None
        left = self.usage.quota.left
        requests = left.get(f"requests.{name}")
        most = None if requests is None else math.floor(requests / Fraction(repr(bounds.guarantee)))
        return least_of(left.get(f"limits.{name}"), most)

    def _amount_denial(self, name: str, amount: int | None) -> Denial | None:
        """Return why an amount of CPU or memory is refused.

        :param amount: None = whatever could be chosen.
        """
        full: Bounds | None = getattr(self.everything, name)
        said: Range = getattr(self.rule, name) or Range()
        own = within(full, least=said.min, most=said.max)
        if full is None or (own is full and self.usage.quota is None):
            return None
        is_cpu = name == "cpu"
        if own is None or (amount is not None and not own.min <= amount <= own.max):
            code = denials.CPU_NOT_ALLOWED if is_cpu else denials.MEMORY_NOT_ALLOWED
            return Denial(field=name, code=code, message=_amount_text(name, own))
        room = self._bounds(name)
        if room is None or (amount is not None and amount > room.max):
            return Denial(field=name, code=denials.NAMESPACE_QUOTA, message=_room_text(name, room))
        return None

    def _run_time_denial(self, selection: Selection) -> Denial | None:
        longest, asked = self.longest_s(selection.gpu), selection.run_time_s
        if longest is None or asked is None or asked <= longest:
            return None
        message = gettext(
            "A server like this may run for {longest} at most, not for {value}.",
            longest=format_duration(longest),
            value=format_duration(asked),
        )
        return Denial(field="run_time", code=denials.RUN_TIME_NOT_ALLOWED, message=message)


def allowance(catalogue: Catalogue, person: Person, *, usage: Usage) -> Allowance:
    """Return what a person may have now.

    :param catalogue: what holds for everybody, and the policy.
    :param usage: what is in use besides the server that is asked about.
    """
    rule = Rule() if catalogue.policy is None else limits_of(catalogue.policy, person)
    return Allowance(everything=catalogue, person=person, rule=rule, usage=usage)


def admitted(options: object, allowed: Allowance) -> Selection:
    """Return the choice that user options stand for, of what the person may have.

    :param options: any JSON value.
    :raises SelectionError: whoever asked, it would not be valid; with one problem for each field.
    :raises PolicyError: it is valid, and not for this person, or not now; with one denial for each field.
    """
    if allowed.blocked is not None:
        raise PolicyError(allowed.blocked)
    full = allowed.everything
    try:
        return validate(options, allowed.reach)
    except SelectionError as error:
        fields = {problem.field for problem in error.problems}
        endless = {slug: replace(gpu, max_runtime_s=None) for slug, gpu in full.gpus.items()}
        selection = validate(options, replace(full, gpus=endless, max_runtime_s=None))
        # What was not asked for, but stands in what holds for everybody by default, is nothing to complain of.
        if refused := [each for each in allowed.rule_on(selection) if each.field in fields]:
            raise PolicyError(*refused) from error
        raise


def _amount_text(name: str, bounds: Bounds | None) -> str:
    if name == "cpu":
        return _cpu_text(bounds)
    if bounds is None:
        return gettext(
            "None of the amounts of memory that are offered is allowed for you. Please ask the hub's admins."
        )
    least, most = format_memory(bounds.min), format_memory(bounds.max)
    if bounds.min == bounds.max:
        return gettext("You may have {amount} of memory.", amount=most)
    return gettext("You may have {least} to {most} of memory.", least=least, most=most)


def _cpu_text(bounds: Bounds | None) -> str:
    if bounds is None:
        return gettext("None of the amounts of CPU that are offered is allowed for you. Please ask the hub's admins.")
    most = cpu_text(bounds.max)
    if bounds.min == bounds.max:
        return gettext("You may have {amount}.", amount=most)
    return gettext("You may have {least} to {most}.", least=format_cpu(bounds.min), most=most)


def _room_text(name: str, bounds: Bounds | None) -> str:
    if bounds is None:
        return gettext("The cluster's quota leaves no room for one more server.")
    if name == "cpu":
        return gettext("The cluster's quota leaves {most}.", most=cpu_text(bounds.max))
    return gettext("The cluster's quota leaves {most} of memory.", most=format_memory(bounds.max))
