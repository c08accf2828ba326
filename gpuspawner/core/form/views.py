"""Declares the form's view: plain values for templates and scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpuspawner.core.catalog.model import Bounds
from gpuspawner.core.warnings.wording import WarningsView


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfitView:
    """Why an image cannot use some GPU types.

    :param text: the reason, one or more sentences.
    :param gpus: slugs of these GPU types.
    """

    text: str
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageView:
    """An image, as the form shows it.

    :param slug: key in the settings; empty for a custom image (an image that the user names by reference).
    :param display_name: name for users.
    :param description: the admin's text, may be empty.
    :param made_for: what the image supports, as text (``"NVIDIA GPUs"``, ``"work without a GPU"``); empty if unknown.
    :param misfits: the GPU types that the image cannot use, grouped by the reason.
    :param denied: a sentence that says why the user may not use the image, or "". form.js gets no denied images.
    """

    slug: str
    display_name: str
    description: str
    made_for: str = ""
    misfits: tuple[MisfitView, ...] = ()
    denied: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomImageView:
    """The part of the form in which the user names an image by reference (a custom image): a card and a text field.

    :param card: the card, which the form shows beside the cards of the listed images; its slug is empty.
    :param help: a sentence about the references that the field accepts.
    :param complaint: a sentence that says why the reference in the field is invalid; "" for a valid or empty reference.
    """

    card: ImageView
    help: str
    complaint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberView:
    """The bounds of an amount, as the form's field shows them: cores or GiB (``"0.5"``), or a run time (``"2h30m"``).

    :param min: smallest amount.
    :param max: largest amount.
    :param step: valid amounts are ``min`` plus multiples of ``step``, up to ``max``. ``default`` is valid even if it is
        not such an amount.
    :param default: amount in the field at first, unless ``is_optional``. In an empty field, the button + fills in
        this amount.
    :param guarantee: fraction (0 to 1) of the pod's limit that the pod requests. The amount in the field is the limit.
    :param request: KubeSpawner's ``cpu_guarantee`` or ``mem_guarantee``, or "" if it is not set. If it is set, the pod
        requests the smaller of this value and the limit, and ``guarantee`` is unused.
    :param is_optional: True = the field is empty at first, and may stay empty.
    :param is_left_by_quota: whether ``max`` is what a ResourceQuota of the namespace leaves. The field then does not
        follow the GPU up to ``max``, so that one server does not take what all the others need.
    """

    min: str
    max: str
    step: str
    default: str
    guarantee: float = 1.0
    request: str = ""
    is_optional: bool = False
    is_left_by_quota: bool = False


def build_number_view(
    bounds: Bounds | None, format_amount: Callable[[int], str], *, is_left_by_quota: bool = False
) -> NumberView | None:
    """Return bounds as the texts that the form's field shows, or None without bounds.

    :param bounds: in whole base units (millicores, bytes, seconds); None if the form has no such field.
    :param format_amount: formats base units as text of the field.
    :param is_left_by_quota: whether the maximum is what a ResourceQuota leaves.
    """
    if bounds is None:
        return None
    return NumberView(
        min=format_amount(bounds.min),
        max=format_amount(bounds.max),
        step=format_amount(bounds.step),
        default=format_amount(bounds.default),
        guarantee=bounds.guarantee,
        request="" if bounds.own is None or bounds.own.guarantee is None else format_amount(bounds.own.guarantee),
        is_optional=bounds.is_optional,
        is_left_by_quota=is_left_by_quota,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeView:
    """The run time limit of servers with a GPU type.

    :param slug: the GPU type's slug; empty for servers without a GPU.
    :param longest: the limit (``"4h"``).
    :param run_time: bounds of the run time field for this type; None if they equal :attr:`FormView.run_time`.
    """

    slug: str
    longest: str
    run_time: NumberView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """The user's limits as the form shows them, apart from denials of single images, GPU types and presets.

    :param in_use: text with one line for each limit on GPUs: how many GPUs are in use, or how many a ResourceQuota
        leaves. May be empty.
    :param blocked: a sentence that says why the user may start no server at all, or "".
    :param times: run time limits by GPU type; types without a limit are missing.
    :param ending: a sentence about the run time limit of the selected GPU type; "" without a limit, or if the form has
        a field for the run time.
    :param custom_image: the card that says why the policy denies custom images to the user; None without such a card.
    """

    in_use: str = ""
    blocked: str = ""
    times: tuple[TimeView, ...] = ()
    ending: str = ""
    custom_image: ImageView | None = None


FORM_LEVEL = ""
"""Key of :attr:`FormView.errors` and :attr:`FormView.notices` for messages about the form as a whole."""


class GPUTypeState(StrEnum):
    """Whether a new server could get one GPU of a type now; the server's CPU, memory and image are not considered."""

    FREE = "free"
    BUSY = "busy"
    """No GPU is free, so a new server would wait."""
    NONE = "none"
    """No running node has a working GPU, but a new or repaired node may have one later."""
    NEVER = "never"
    """No node has the GPU, and no autoscaler can add a node with the GPU."""
    DENIED = "denied"
    """The policy denies the type to the user, permanently or for now."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUTypeView:
    """A GPU type, as the form shows it. All counts are units (GPUs, MIG slices or shares of GPUs), or None if unknown.

    :param slug: key of the type in the settings, or generated slug of a discovered type.
    :param display_name: name for users.
    :param vendor: slug of the vendor (``"nvidia"``).
    :param memory_text: memory of one unit (``"80 GiB"``); empty if unknown.
    :param memory_gib: memory of one unit in GiB; None if unknown.
    :param unit: value of :class:`gpuspawner.core.catalog.model.UnitKind`.
    :param unit_text: the unit as text: ``"full GPU"``, ``"MIG slice"`` or ``"shared"``.
    :param max_count: largest count that the user may choose.
    :param total: all units in the cluster, including broken ones.
    :param healthy: units that work, on ready nodes.
    :param free: units that a new server could get.
    :param largest: largest number of free units on one node.
    :param waiting: units requested by pending pods.
    :param capacity_text: total and free units as text (``"3 of 4 free"``, ``"capacity unknown"``).
    :param details_text: further texts about the counts (``"1 of 8 broken"``), one per line; may be empty.
    :param state: whether a server could get one unit now.
    :param reason: a sentence that says why no server could get a unit now; "" if a server could, or if unknown.
    :param shapes: what single nodes have free, as triples (CPU in millicores, memory in bytes, GPU units). A triple is
        left out if another one is at least as large in all three amounts (Pareto front).
    :param largest_shapes: what single nodes would have free without any pods, in the format of ``shapes``.
    :param scales: whether an autoscaler may add nodes with the type, as far as settings and NodePools tell.
    :param new_nodes: whether other nodes with the type may be added, of which the hub knows nothing.
    :param share: CPU in millicores and memory in bytes that belong to one unit on a node of the type; None if unknown.
    :param badges: short labels (``"NVLink"``, ``"spot"``).
    :param caution: a sentence that warns of spot nodes, or "".
    :param longest_text: run time limit of servers with the type (``"up to 4 hours"``) if this limit is shorter than the
        limit for all servers, else "".
    :param description: the admin's text, or a text that says how a discovered type's GPUs are shared; may be empty.
    :param note: the admin's ``note``, or a sentence that a discovered type's nodes are simulated; may be empty.
    :param card: slug of the type with the full GPU, under which the row of a part of it stands; "" if it stands alone.
    """

    slug: str
    display_name: str
    vendor: str
    memory_text: str
    memory_gib: float | None
    unit: str
    unit_text: str
    max_count: int
    total: int | None
    healthy: int | None
    free: int | None
    largest: int | None
    waiting: int | None
    capacity_text: str
    details_text: str
    state: GPUTypeState
    reason: str
    shapes: tuple[tuple[int, int, int], ...] = ()
    largest_shapes: tuple[tuple[int, int, int], ...] = ()
    scales: bool = False
    new_nodes: bool = False
    share: tuple[int, int] | None = None
    badges: tuple[str, ...] = ()
    caution: str = ""
    longest_text: str = ""
    description: str
    note: str
    card: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorView:
    """The GPU types of a vendor.

    :param slug: ``"nvidia"``, for example.
    :param display_name: ``"NVIDIA"``, for example.
    :param types: the GPU types, at least one, in the catalog's order; parts of a GPU follow the full GPU.
    """

    slug: str
    display_name: str
    types: tuple[GPUTypeView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeView:
    """A selection that can start now although the selection in the fields cannot.

    :param sentence: the difference from the selection in the fields (``"1 × A100 80 GB"``).
    :param values: field name → text that the form fills in when the user picks the alternative.
    """

    sentence: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictView:
    """Whether a server with a selection (the user's choices in the form, or a preset) can start.

    :param outcome: value of :class:`gpuspawner.core.verdict.verdict.Outcome`.
    :param sentence: the verdict for users (``"Starts now: room for 3 like this."``).
    :param alternatives: similar selections that can start now, the most similar first.
    """

    outcome: str
    sentence: str
    alternatives: tuple[AlternativeView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetView:
    """A preset, which fills in the form's fields.

    :param slug: key in the settings.
    :param display_name: name for users.
    :param description: the admin's text, may be empty.
    :param summary: the preset's selection as text.
    :param values: field name → text that the form fills in when the user picks the preset.
    :param outlook: whether the preset can start, or why it is denied; None if unknown.
    :param is_denied: whether the policy denies the preset to the user, for now or forever; ``outlook`` has the reason.
    :param is_picked: whether the fields hold the preset's ``values``.
    """

    slug: str
    display_name: str
    description: str
    summary: str
    values: Mapping[str, str]
    outlook: VerdictView | None = None
    is_denied: bool = False
    is_picked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptionView:
    """An option of a profile: a list from which the user picks a choice, a text field, or both.

    :param field: name of the list in the HTML form, as KubeSpawner names it.
    :param label: text above the list, which may be HTML of the admin.
    :param choices: slug and name of each choice; the slug "" is for the text field. Empty without a list.
    :param picked: slug of the picked choice; "" for the text field.
    :param text_field: name of the text field; "" without one.
    :param text_label: text above the text field.
    :param text: content of the text field.
    """

    field: str
    label: str
    choices: tuple[tuple[str, str], ...]
    picked: str
    text_field: str = ""
    text_label: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileView:
    """A profile of KubeSpawner's ``profile_list``, as the form shows it: a card with its own start button.

    :param slug: the profile's slug.
    :param display_name: name for users, which may be HTML of the admin.
    :param description: text for users, which may be HTML of the admin.
    :param summary: what the server gets with the picked choices; empty if unknown.
    :param gpus: number of GPUs with the picked choices; 0 if unknown.
    :param options: the profile's options.
    :param outlook: whether a server with the picked choices can start, or why it is denied; None if unknown.
    :param is_denied: whether the user may not start the profile, whatever choices are picked.
    :param is_last: whether the user's last start was of this profile.
    :param is_picked: whether the form shows the profile as selected.
    :param error: why the hub refused to start the profile; "" if the hub did not refuse.
    """

    slug: str
    display_name: str
    description: str = ""
    summary: str = ""
    gpus: int = 0
    options: tuple[ProfileOptionView, ...] = ()
    outlook: VerdictView | None = None
    is_denied: bool = False
    is_last: bool = False
    is_picked: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceView:
    """An entry in a field that offers a fixed list from the settings, such as one priority.

    :param slug: key in the settings.
    :param display_name: name for users.
    :param description: the admin's text, may be empty.
    :param phrase: the entry in the sentence that describes the user's choice: "priority Low".
    """

    slug: str
    display_name: str
    description: str = ""
    phrase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceFieldView:
    """A field that offers a fixed list of entries from the settings, such as the priority.

    :param name: name of the field in the HTML form and of the user option (``priority``).
    :param section: key of the entries in the settings (``priorities``); also part of the ID of the HTML element that
        contains the entries.
    :param label: text above the field (``Priority``).
    :param title: what users call the field, in the middle of a sentence (``priority``).
    :param entries: entries to pick from, at least one, the default first.
    """

    name: str
    section: str
    label: str
    title: str
    entries: tuple[ChoiceView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactView:
    """A line of the list with which the form asks whether to start the choice in a link.

    :param name: ``image``, ``gpu``, ``amounts``, ``run_time`` or ``more``; by it the script keeps the line up to date.
    :param label: what the line is about.
    :param text: the choice; "" if the line has nothing to say.
    :param is_foreign: whether the line names an image that is not one of the hub's.
    """

    name: str
    label: str
    text: str
    is_foreign: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormView:
    """The view of the whole form.

    :param version: version of the data for form.js that :func:`gpuspawner.core.form.encoding.encode_view` returns.
    :param images: the images to choose from; empty if the policy hides all, or without fields.
    :param custom_image: the field for an image reference; None if the user may only choose from ``images``.
    :param cpu: bounds in cores; None if the form has no such field.
    :param memory: bounds in GiB; None if the form has no such field.
    :param run_time: bounds of the run time; None if the form has no such field.
    :param shared_memory: bounds of /dev/shm in GiB; None if the form has no such field. The field may be left empty.
    :param choices: the fields with a fixed list of entries (the priority, for example), in the form's order.
    :param vendors: GPU types by vendor.
    :param presets: the presets, in the catalog's order.
    :param profiles: the profiles: first one with ``is_last``, if any, then the others in the admin's order.
    :param values: field name → text in the field; after an error, the submitted text. ``image`` is "" for the image in
        ``custom_image``, ``gpu`` is "" for no GPU, ``shared_memory`` is "" for the GPU type's default.
    :param errors: field name → error message; empty on a first visit. A request may also have errors in fields that the
        form does not have. The key :data:`FORM_LEVEL` is for the form as a whole.
    :param notices: field name → sentence about a saved value that is no longer offered, and its replacement.
    :param capacity_notice: why capacity is unknown, or "".
    :param summary: the selection as text ("PyTorch with 4 CPUs, 16 GiB and 1 × A100 80 GB"); "" if invalid.
    :param verdict: whether the selection can start; None if the selection is invalid or was not checked.
    :param age_s: seconds since the API server confirmed the counts; None if unknown.
    :param age_text: the age as text (``"as of 2 min ago"``) if the counts are stale, else "".
    :param flags: warnings for admins; None for other users, or without warnings. form.js does not get them.
    :param is_open: whether the form shows its fields from the start, not only the presets. True if a field has an error
        or a notice, or if the values are neither the defaults nor those of a preset.
    :param is_fresh: whether the user has no earlier choice and followed no link.
    :param suggestion: CPU and memory that belong to the selected GPUs on their node, as text; "" if unknown, without a
        GPU, and if the fields hold these amounts.
    :param link_prefix: text before the name of each field in the query of a link that starts a server; may be empty.
    :param links_start: whether a link to a choice starts a server at once; False = the form asks first.
    :param asked: slug of the profile, or "" for the values in the fields, that a link names and that the form asks
        about: "Start this server?" None = the form asks nothing.
    :param facts: the choice in the fields, if the form asks whether to start it.
    :param notes: sentences about what a link asks for and the form has no field for.
    :param is_prefilled: whether a link filled in the form and nothing was to start yet; errors are then in the link.
    :param policy: the user's limits; None without limits.
    :param has_fields: whether users can choose by fields; False = the form has only profiles.
    :param profiles_problem: why the user can start no profile, such as that the hub could not load them; "" otherwise.
    :param tag: entity tag of the data that may change while the form is open.
    """

    version: int = 9
    images: tuple[ImageView, ...] = ()
    custom_image: CustomImageView | None = None
    cpu: NumberView | None = None
    memory: NumberView | None = None
    run_time: NumberView | None = None
    shared_memory: NumberView | None = None
    choices: tuple[ChoiceFieldView, ...] = ()
    vendors: tuple[VendorView, ...] = ()
    presets: tuple[PresetView, ...] = ()
    profiles: tuple[ProfileView, ...] = ()
    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)
    notices: Mapping[str, str] = field(default_factory=dict)
    capacity_notice: str = ""
    summary: str = ""
    verdict: VerdictView | None = None
    age_s: float | None = None
    age_text: str = ""
    flags: WarningsView | None = None
    is_open: bool = True
    is_fresh: bool = False
    suggestion: str = ""
    link_prefix: str = ""
    links_start: bool = False
    asked: str | None = None
    facts: tuple[FactView, ...] = ()
    notes: tuple[str, ...] = ()
    is_prefilled: bool = False
    policy: PolicyView | None = None
    has_fields: bool = True
    profiles_problem: str = ""
    tag: str = ""

    @property
    def takes_text_in_profiles(self) -> bool:
        """Whether a profile has a text field."""
        return any(option.text_field for profile in self.profiles for option in profile.options)

    @property
    def priorities(self) -> tuple[ChoiceView, ...]:
        """The priorities, the default first; empty if none are offered. The admin's own templates may read this."""
        return next((choice.entries for choice in self.choices if choice.section == "priorities"), ())

    @property
    def is_more_open(self) -> bool:
        """Whether the form shows the rarely used fields (run time, shared memory, priority) from the start.

        True if one of these fields differs from its default, or has an error or a notice.
        """
        defaults = {} if self.run_time is None else {"run_time": self.run_time.default}
        if self.shared_memory is not None:
            defaults["shared_memory"] = ""
        defaults |= {choice.name: choice.entries[0].slug for choice in self.choices}
        return any(
            name in self.errors or name in self.notices or self.values[name] != text for name, text in defaults.items()
        )

    @property
    def has_many_gpus(self) -> bool:
        """Whether there are more than eight GPU types: they get a search, an order, and lines for what is not free."""
        return sum(len(vendor.types) for vendor in self.vendors) > _MOST_PLAIN_GPUS

    @property
    def has_many_images(self) -> bool:
        """Whether there are more than six images: they are rows with a search, instead of cards."""
        return len(self.images) > _MOST_PLAIN_IMAGES

    @property
    def has_lists(self) -> bool:
        """Whether the page needs the stylesheet and the script for searching and filtering images or GPU types."""
        return self.has_many_gpus or self.has_many_images or len(self.vendors) > 1


_MOST_PLAIN_GPUS = 8
_MOST_PLAIN_IMAGES = 6
