"""What stands in the fields when the form opens: the saved choice as far as it is still offered, else the defaults.

Saved user options are hostile input (the hub stores them unchecked, its REST API lets anyone with the right to change
them write any JSON), so each field passes the same validation as a new choice, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gpuspawner.core.catalog.catalogue import Catalogue
from gpuspawner.core.catalog.narrowing import within
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.form.formview_types import FORM_LEVEL
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.request.selection import NUMBER_OF_GPUS, VERSION, Selection, is_given, longest_run_s, validate
from gpuspawner.core.text.language import gettext, later
from gpuspawner.core.text.sentences import paragraph
from gpuspawner.core.units.duration import duration_option, parse_duration
from gpuspawner.core.units.quantity import format_cpu, gib

FIELDS = (
    *("image", "custom_image", "cpu", "memory", "gpu", "gpu_count"),
    *("run_time", "shared_memory", "priority"),
)
"""Names of the form's fields, in the form's order."""

Why = Callable[[str, Mapping[str, object]], str]
"""Field and user options → why a person may not have what these hold there, a sentence; empty where it is gone."""

_QUOTED_CHARS = 40
_GONE = {
    "cpu": later("Your last number of CPUs{saved} is no longer offered: {kept} is filled in."),
    "memory": later("Your last amount of memory{saved} is no longer offered: {kept} GiB is filled in."),
    "run_time": later("Your last run time{saved} is no longer offered: {kept} is filled in."),
}
"""Field → what is said when what was saved for it is gone."""
_KEPT, _KEPT_MEMORY = later("{kept} is filled in."), later("{kept} GiB is filled in.")
"""What is said after why somebody may not have it."""


def probe(options: Mapping[str, object], catalogue: Catalogue) -> Selection | None:
    """Return the selection these options stand for, None if they are not valid."""
    try:
        return validate(options, catalogue)
    except SelectionError:
        return None


def values_of(selection: Selection) -> dict[str, str]:
    """Return a selection as field values, in form notation (cores; GiB; hours and minutes with their units)."""
    cpu, memory, run_time = selection.cpu_millis, selection.memory_bytes, selection.run_time_s
    shared = selection.shared_memory_bytes
    return {
        "image": selection.image,
        "custom_image": selection.custom_image or "",
        "cpu": "" if cpu is None else format_cpu(cpu),
        "memory": "" if memory is None else gib(memory),
        "gpu": selection.gpu or "",
        "gpu_count": str(selection.gpu_count) if selection.gpu else "",
        "run_time": "" if run_time is None else duration_option(run_time),
        "shared_memory": "" if shared is None else gib(shared),
        "priority": selection.priority or "",
    }


def restore(
    options: Mapping[str, object] | None, catalogue: Catalogue, *, why: Why | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return field values and notices (field name → sentence about what was saved and is gone)."""
    form = _Form(catalogue, values_of(validate({}, catalogue)), why=why)
    if not isinstance(options, Mapping):
        return form.values, form.notices
    if options.get("v", VERSION) != VERSION:
        form.notices[FORM_LEVEL] = gettext("Your last choice was saved by another version and could not be read.")
        return form.values, form.notices
    if options.get("preset") is not None:
        preset = probe({"preset": options["preset"]}, catalogue)
        form.values = form.values if preset is None else values_of(preset)
    for name, restore_field in form.fields().items():
        if name in options and is_given(name, options[name]):
            restore_field(options[name])
    form.fit_shared_memory()
    form.fit_run_time(is_saved=options.get("run_time") is not None)
    return form.values, form.notices


class _Form:
    """Field values and notices while they are being restored, one field after the other."""

    def __init__(self, catalogue: Catalogue, values: dict[str, str], *, why: Why | None) -> None:
        self.catalogue = catalogue
        self.values = values
        self.notices: dict[str, str] = {}
        self._why = why

    def fields(self) -> dict[str, Callable[[object], None]]:
        """Return field name → how to restore it, of the fields that are shown; a count comes after its type."""
        fields: dict[str, Callable[[object], None]] = {"image": self._image, "custom_image": self._custom_image}
        if self.catalogue.cpu is not None:
            fields["cpu"] = partial(self._amount, "cpu")
        if self.catalogue.memory is not None:
            fields["memory"] = partial(self._amount, "memory")
        fields |= {"gpu": self._gpu, "gpu_count": self._count}
        if self.catalogue.run_time is not None:
            fields["run_time"] = partial(self._amount, "run_time")
        if self.catalogue.shared_memory is not None:
            fields["shared_memory"] = self._shared_memory
        if self.catalogue.priorities:
            fields["priority"] = self._priority
        return fields

    def fit_shared_memory(self) -> None:
        """Leave the size of /dev/shm open where the memory that was restored has no room for it."""
        if self.values["shared_memory"]:
            self._shared_memory(f"{self.values['shared_memory']}G")

    def fit_run_time(self, *, is_saved: bool) -> None:
        """Shorten the run time to what the GPU type that was restored may have.

        :param is_saved: it is no default of ours.
        """
        gpu = self.values["gpu"] or None
        bounds = within(self.catalogue.run_time, most=longest_run_s(gpu, self.catalogue))
        if bounds is None or parse_duration(saved := self.values["run_time"]) <= bounds.max:
            return
        self.values["run_time"] = duration_option(bounds.max)
        if is_saved and "run_time" not in self.notices:
            self._note_amount("run_time", saved, options={"gpu": gpu, "run_time": saved})

    def _image(self, saved: object) -> None:
        if isinstance(saved, str) and saved in self.catalogue.images:
            self.values["image"] = saved
            return
        self._note_image(saved)

    def _custom_image(self, saved: object) -> None:
        selection = probe({"custom_image": saved}, self.catalogue)
        if selection is None:
            self._note_image(saved, name="custom_image")
            return
        self.values.update(image="", custom_image=selection.custom_image or "")
        self.notices.pop("image", None)

    def _note_image(self, saved: object, *, name: str = "image") -> None:
        # A preset's image may stand in the field already, so what is named is what the person sees selected.
        selected = self.catalogue.images[self.values["image"]].display_name
        gone = gettext(
            "The image you had last time{saved} is no longer offered: {name} is selected.",
            saved=_quoted(saved),
            name=selected,
        )
        denied = self._denied({name: saved}, name)
        self.notices["image"] = paragraph(denied, gettext("{name} is selected.", name=selected)) if denied else gone

    def _denied(self, options: Mapping[str, object], name: str) -> str:
        """Return why a person may not have what was saved in a field, a sentence; empty where it is gone."""
        return "" if self._why is None else self._why(name, options)

    def _amount(self, name: str, saved: object) -> None:
        selection = probe({name: saved}, self.catalogue)
        if selection is not None:
            self.values[name] = values_of(selection)[name]
            return
        self._note_amount(name, saved, options={name: saved})

    def _note_amount(self, name: str, saved: object, *, options: Mapping[str, object]) -> None:
        kept = self.values[name]
        gone = gettext(_GONE[name], saved=_quoted(saved), kept=kept)
        instead = gettext(_KEPT_MEMORY if name == "memory" else _KEPT, kept=kept)
        denied = self._denied(options, name)
        self.notices[name] = paragraph(denied, instead) if denied else gone

    def _shared_memory(self, saved: object) -> None:
        memory = self.values["memory"]
        selection = probe({"memory": f"{memory}G" if memory else None, "shared_memory": saved}, self.catalogue)
        if selection is not None:
            self.values["shared_memory"] = values_of(selection)["shared_memory"]
            return
        self.values["shared_memory"] = ""
        self.notices["shared_memory"] = gettext(
            "Your last amount of shared memory{saved} is no longer offered: the field is left empty.",
            saved=_quoted(saved),
        )

    def _priority(self, saved: object) -> None:
        if isinstance(saved, str) and saved in self.catalogue.priorities:
            self.values["priority"] = saved
            return
        selected = self.catalogue.priorities[self.values["priority"]].display_name
        self.notices["priority"] = gettext(
            "The priority you had last time{saved} is no longer offered: {name} is selected.",
            saved=_quoted(saved),
            name=selected,
        )

    def _gpu(self, saved: object) -> None:
        if isinstance(saved, str) and saved in self.catalogue.gpus:
            if saved != self.values["gpu"]:
                self.values.update(gpu=saved, gpu_count="1")
            return
        self.values.update(gpu="", gpu_count="")
        if saved is None or saved == "":
            return
        gone = gettext(
            "The GPU type you had last time{saved} is no longer offered: no GPU is selected.", saved=_quoted(saved)
        )
        denied = self._denied({"gpu": saved}, "gpu")
        self.notices["gpu"] = paragraph(denied, gettext("No GPU is selected.")) if denied else gone

    def _count(self, saved: object) -> None:
        if not self.values["gpu"]:
            return
        number = Problems().whole("gpu_count", saved, title=NUMBER_OF_GPUS)
        if number is not None and 1 <= number <= self.catalogue.gpus[self.values["gpu"]].max_count:
            self.values["gpu_count"] = str(number)
            return
        kept = self.values["gpu_count"]
        gone = gettext(
            "Your last number of GPUs{saved} is no longer offered: {kept} is filled in.",
            saved=_quoted(saved),
            kept=kept,
        )
        denied = self._denied({"gpu": self.values["gpu"], "gpu_count": saved}, "gpu_count")
        self.notices["gpu_count"] = paragraph(denied, gettext(_KEPT, kept=kept)) if denied else gone


def _quoted(saved: object) -> str:
    """Return what was saved, shortened and in brackets, if it is something a person can have picked."""
    if isinstance(saved, bool) or not isinstance(saved, str | int | float):
        return ""
    try:
        text = str(saved)
    except ValueError:  # Python refuses to write out an integer of thousands of digits
        return ""
    shown = text if len(text) <= _QUOTED_CHARS else f"{text[:_QUOTED_CHARS]}…"
    return gettext(" ({saved})", saved=shown)
