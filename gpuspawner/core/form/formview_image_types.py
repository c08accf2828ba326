"""The images of the form as JSON-able values; a part of :mod:`gpuspawner.core.form.formview_types`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MisfitView:
    """Why an image cannot use some GPU types.

    :param text: one or more sentences.
    :param gpus: slugs of these types.
    """

    text: str
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageView:
    """One image as the form shows it.

    :param made_for: vendors in people's words (``"NVIDIA GPUs"``, ``"work without a GPU"``), empty when not declared.
    :param misfits: each GPU type that it cannot use is in one of them, all others are in none.
    :param denied: why this person may not use it, a sentence; empty where they may. The page's script gets none of
        these images.
    """

    slug: str
    display_name: str
    description: str
    made_for: str = ""
    misfits: tuple[MisfitView, ...] = ()
    denied: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomImageView:
    """The image that a person names, as the form shows it: one more card, and a field for its reference.

    :param card: its slug is empty.
    :param help: what may be written, a sentence.
    :param complaint: why what is written cannot be started, a sentence; empty where it can, or nothing is written.
    """

    card: ImageView
    help: str
    complaint: str = ""
