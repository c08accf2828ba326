"""Defines the notes of a conversion: how the settings differ from the profile list, and what the admin should do.

Each note has a cause, and each cause has an effect, which says how serious the difference is. The exit status of
``gpuspawner convert`` depends on the most serious effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """How serious a difference between the settings and the profile list is, the most serious last."""

    NOTE = "note"
    """A difference between the profile list and the settings that changes no pod."""
    DIFFERS = "differs"
    """The settings lack or change something, but no user gets more access, and no server gets different resources."""
    REFUSED = "refused"
    """With the settings, users get more access than with the profile list, or servers get different resources.

    ``gpuspawner convert`` writes such settings only if the admin passes the name of the note's cause to ``--accept``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A reason why settings differ from the profile list from which they are converted.

    :param name: stable name, which the admin can pass to ``--accept``.
    :param effect: how serious the difference is.
    :param text: sentences for the admin: what happens instead, and what to do.
    """

    name: str
    effect: Effect
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A difference between the settings and one place in the profile list.

    :param cause: why the settings differ.
    :param profile: display names of the profile and, if any, of the option and choice; empty = all profiles.
    :param field: keys that lead to the place in the profile list, joined by dots; may be empty.
    :param detail: the values that differ, such as ``0.12345 → 124m``; may be empty.
    """

    cause: Cause
    profile: str = ""
    field: str = ""
    detail: str = ""


CPU_ROUNDED = Cause(
    name="cpu-rounded",
    effect=Effect.NOTE,
    text="Kubernetes rounds CPU up to thousandths. The settings contain the rounded amount.",
)
NO_TRAIT = Cause(
    name="no-trait",
    effect=Effect.NOTE,
    text="KubeSpawner has no trait of this name and ignored it, so it is left out.",
)
UNREAD_KEY = Cause(
    name="unread-key",
    effect=Effect.DIFFERS,
    text="KubeSpawner does not read this key, so it is left out. If a hook of your hub reads it, change the hook.",
)
MARKUP = Cause(
    name="markup", effect=Effect.NOTE, text="The form shows HTML tags as they are written. Edit the description."
)
SHORTENED = Cause(name="shortened", effect=Effect.NOTE, text="The text is too long for the form, so its end is cut.")
PYTHON_CODE = Cause(
    name="python-code",
    effect=Effect.DIFFERS,
    text="Python code in hub.extraConfig reads profile_list, and it is not run here. If it filters the profiles by"
    " anything but allowed_groups and allowed_users, do the same in the settings.",
)
PYTHON_LIST = Cause(
    name="python-code",
    effect=Effect.REFUSED,
    text="Python code in hub.extraConfig assigns profile_list, and it is not run here: the code makes or changes the"
    " list, so the converted list may not be the one that users see. Do the same in the settings.",
)
HOOKS = Cause(
    name="hooks",
    effect=Effect.DIFFERS,
    text="Code of hub.extraConfig may read the user's choice. The options of a server name `preset` and"
    " `preset_choices` instead of `profile`: change the code.",
)
UNUSED_LIST = Cause(
    name="unused-list",
    effect=Effect.NOTE,
    text="Another profile list takes precedence over this one, which no user saw. Both are taken away.",
)
UNREAD_ACCESS = Cause(
    name="unread-access",
    effect=Effect.NOTE,
    text="KubeSpawner itself does not read allowed_groups and allowed_users: if no code of the hub does, these presets"
    " were open to every user, and now are not.",
)
LIST_ONLY = Cause(
    name="list-only",
    effect=Effect.NOTE,
    text="The file does not say what KubeSpawner's own settings give each server. What a profile leaves out counts as"
    " not set. Convert the whole values file if there is one.",
)
TEAMS = Cause(
    name="allowed-teams",
    effect=Effect.DIFFERS,
    text="allowed_teams becomes allowed_groups. If no hook of your hub reads allowed_teams, every user could have it"
    " before.",
)
UNLISTED_CHOICE = Cause(
    name="unlisted-choice",
    effect=Effect.DIFFERS,
    text="Users could enter a text that KubeSpawner put into other values than the image alone. Presets take an image"
    " only, so the field is left out. Add an entry for each text that users need.",
)
SECOND_IMAGE = Cause(
    name="second-custom-image",
    effect=Effect.DIFFERS,
    text="Another choice of the profile sets the image later, or has a field for an image as well. A preset has one"
    " such field, so this one is left out.",
)
RESTRICTED_IMAGE = Cause(
    name="restricted-custom-image",
    effect=Effect.DIFFERS,
    text="Only some users could enter an image here. The field is left out for every user. Make a preset for these"
    " users, with allowed_groups.",
)
IMAGE_BUILDING = Cause(
    name="image-building",
    effect=Effect.DIFFERS,
    text="Users could have an image built from a repository. gpuspawner builds no images: build them elsewhere, and"
    " enter or list them by name.",
)
NEVER_STARTED = Cause(
    name="never-started",
    effect=Effect.DIFFERS,
    text="KubeSpawner or Kubernetes refuses this value, so no server with it could start. What contains it is left"
    " out.",
)
HUB_WIDE = Cause(
    name="hub-wide",
    effect=Effect.DIFFERS,
    text="This trait must be the same for all servers, so it is left out. Set it below hub.config.KubeSpawner.",
)
NOT_CONFIGURABLE = Cause(
    name="not-configurable",
    effect=Effect.DIFFERS,
    text="This is an internal attribute of KubeSpawner, which settings do not change. It is left out.",
)
NO_USER_ALLOWED = Cause(
    name="no-user-allowed",
    effect=Effect.DIFFERS,
    text="The list of those who may choose it is empty, so no user could. It is left out.",
)
SAME_SLUG = Cause(
    name="same-slug",
    effect=Effect.DIFFERS,
    text="An earlier profile has the same slug, and KubeSpawner always started that one. It is left out. Give it a slug"
    " of its own if users need it.",
)
NO_ENTRY = Cause(
    name="no-entry",
    effect=Effect.DIFFERS,
    text="An option of the profile has no choice, so KubeSpawner started no server with it. The profile is left out.",
)
NOT_VALID = Cause(
    name="not-valid",
    effect=Effect.DIFFERS,
    text="gpuspawner does not accept these values in a preset. What contains them is left out.",
)
VISIBLE_GPUS = Cause(
    name="visible-gpus",
    effect=Effect.DIFFERS,
    text="gpuspawner sets this variable itself, so that a server sees its own GPUs only. It is left out.",
)
SHARED_GPUS = Cause(
    name="gpus-without-request",
    effect=Effect.REFUSED,
    text="Servers saw the GPUs of their node without a request for one. With gpuspawner they see none: request them"
    " with extra_resource_limits, for example with the device plugin's time slicing.",
)
SEVERAL_ACCELERATORS = Cause(
    name="several-accelerators",
    effect=Effect.REFUSED,
    text="Servers had several kinds of GPUs at once. A preset has one kind; the others are left out.",
)
CONTAINER_GPUS = Cause(
    name="container-gpus",
    effect=Effect.REFUSED,
    text="GPUs in the resources of a container are removed from each server. Request them with extra_resource_limits.",
)
DEFAULT_CHANGED = Cause(
    name="default-changed",
    effect=Effect.REFUSED,
    text="Servers without a choice got the default profile, which is left out. They get another one with the new"
    " settings. Mend the profile, or make one of the others the default.",
)
LATER_DEFAULT = Cause(
    name="later-default",
    effect=Effect.REFUSED,
    text="Several profiles are the default, and the first of them is not for every user. Without a choice, the other"
    " users got the next default profile. They now get the first preset that they may have. Mark one profile as the"
    " default.",
)
CONTAINER_RESOURCES = Cause(
    name="container-resources",
    effect=Effect.REFUSED,
    text="The resources in extra_container_config replaced those of all other traits. They are left out, so servers get"
    " what the other traits say. Write them as cpu_limit, cpu_guarantee, mem_limit, mem_guarantee and"
    " extra_resource_limits.",
)
ACCESS_KEY = Cause(
    name="access-key",
    effect=Effect.REFUSED,
    text="The key looks as if it said who may have it, but neither KubeSpawner nor gpuspawner knows it: with the new"
    " settings every user may have it. Write the groups as allowed_groups, the users as allowed_users.",
)


class NoteList:
    """Collects the notes of a conversion in the order in which they are added, and ignores repeated notes."""

    def __init__(self) -> None:
        self._notes: dict[Note, None] = {}

    def add(self, cause: Cause, *, profile: str = "", field: str = "", detail: str = "") -> None:
        """Add a note.

        :param cause: why the settings differ from the profile list.
        :param profile: display names of the profile and, if any, of the option and choice.
        :param field: keys that lead to the place in the profile list, joined by dots.
        :param detail: the values that differ.
        """
        self._notes.setdefault(Note(cause=cause, profile=profile, field=field, detail=detail))

    @property
    def notes(self) -> tuple[Note, ...]:
        """The collected notes."""
        return tuple(self._notes)


def group_notes(notes: Iterable[Note]) -> dict[Cause, list[Note]]:
    """Return a mapping from each cause to the notes with this cause; the causes with the most serious effect are last.

    :param notes: notes in any order.
    """
    found: dict[Cause, list[Note]] = {}
    for note in notes:
        found.setdefault(note.cause, []).append(note)
    ranks = list(Effect)
    return dict(sorted(found.items(), key=lambda item: ranks.index(item[0].effect)))


_MOST_SHOWN = 8
"""Maximum number of places in the profile list that :func:`format_notes` prints for a cause."""


def format_notes(notes: Iterable[Note]) -> Iterator[str]:
    """Yield lines for the admin, grouped by cause (the reason why the settings differ from the profile list).

    For each cause, the first line contains its effect, name and text. The next lines contain the places in the profile
    list.

    :param notes: notes in any order.
    """
    for cause, own in group_notes(notes).items():
        yield f"{cause.effect}: {cause.name}: {cause.text}"
        places = list(dict.fromkeys(_format_place(each) for each in own))
        yield from (f"  - {place}" for place in places[:_MOST_SHOWN] if place)
        if len(places) > _MOST_SHOWN:
            yield f"  - and {len(places) - _MOST_SHOWN} more"


def _format_place(note: Note) -> str:
    return ": ".join(filter(None, (note.profile, note.field, note.detail)))
