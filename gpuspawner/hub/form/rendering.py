"""Renders the spawn form to HTML with jinja2.

JupyterHub puts the resulting fragment into its own ``<form>``. The fragment contains the CSS and JavaScript, because a
spawner cannot serve files. The script reads its data from a JSON element in the fragment. This module translates the
script's messages, marked with ``t("…")`` and ``tn("…", "…", number)``, so that the page contains one language only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from gettext import NullTranslations
from pathlib import Path
from types import MappingProxyType

from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PrefixLoader,
    StrictUndefined,
    select_autoescape,
)
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from gpuspawner._resources import data_dir
from gpuspawner.core.form.encoding import encode_view
from gpuspawner.core.form.views import FormView, GPUTypeView, ImageView, ProfileView
from gpuspawner.core.text.decimals import show_decimals
from gpuspawner.core.text.i18n import ENGLISH, get_language, gettext, ngettext
from gpuspawner.core.text.wording import join_sentences

_TEXT = r'"((?:[^"\\\n]|\\.)*)"'
_MESSAGE_CALL = re.compile(rf"\bt\({_TEXT}")
_PLURAL_CALL = re.compile(rf"\btn\({_TEXT}, ?{_TEXT}")
_ENGLISH_PLURAL_RULE = re.compile(r"Number\(n ?!= ?1\)")
"""Finds the English plural rule in ``templates/language.js``, to replace it with the rule of the page's language."""
_PLURAL_FORMS = re.compile(r"[^;]*;\s*plural\s*=\s*([n0-9\s()!=<>&|?:%*/+-]+?)\s*;?\s*")
"""Matches a gettext header ``Plural-Forms`` whose plural rule, a C expression, is valid JavaScript, too."""
_PLURAL_SAMPLES = (*range(200), 1_000_000)
"""Numbers that are enough to find all plural forms: each form of any language belongs to at least one of them."""


def translate_script(source: str) -> str:
    """Return a script with its messages and plural rule in the current language.

    The script marks messages with calls of its functions ``t`` and ``tn``. A call stays unchanged if a message is not a
    string literal: a script of the admin may define other functions with these names.
    """
    language = get_language()
    if language is ENGLISH:
        return source
    translations = language.translations

    def translate(found: re.Match[str]) -> str:
        message = _parse_literal(found[1])
        return found[0] if message is None else f"t({_format_literal(translations.gettext(message))}"

    text = _MESSAGE_CALL.sub(translate, source)
    rule = _PLURAL_FORMS.fullmatch(translations.info().get("plural-forms", ""))
    if rule is None:
        return text
    return _ENGLISH_PLURAL_RULE.sub(
        lambda _: f"Number({rule[1]})", _PLURAL_CALL.sub(_make_plural_replacer(translations), text)
    )


def _make_plural_replacer(translations: NullTranslations) -> Callable[[re.Match[str]], str]:
    plural = getattr(translations, "plural", lambda number: int(number != 1))
    numbers = {plural(number): number for number in reversed(_PLURAL_SAMPLES)}
    last = numbers[max(numbers)]

    def translate(found: re.Match[str]) -> str:
        singular, many = _parse_literal(found[1]), _parse_literal(found[2])
        if singular is None or many is None:
            return found[0]
        forms = [translations.ngettext(singular, many, numbers.get(form, last)) for form in range(max(numbers) + 1)]
        return f"tn([{','.join(map(_format_literal, forms))}],0"

    return translate


def _parse_literal(literal: str) -> str | None:
    try:
        text: str = json.loads(f'"{literal}"')
    except ValueError:
        return None
    return text


def _format_literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


FORM_TEMPLATE = "form.html"

_MAX_CACHED_ROWS = 512
"""Maximum number of rows in each cache of rendered rows; a row is about 2 KB."""

FormRow = ImageView | GPUTypeView | ProfileView
"""An image or GPU type, which the form shows as a row, or a profile, which is a card."""

_ValuesBySlug = Mapping[str, Mapping[str, Hashable]]
_NO_VALUES: _ValuesBySlug = MappingProxyType({})
_TypedValues = tuple[tuple[str, type, Hashable], ...]

_SCRIPT_BREAKERS = re.compile(r"<(?=!--|/?script)", re.IGNORECASE)
_STYLE_BREAKERS = re.compile(r"</(?=style)", re.IGNORECASE)


def render(view: FormView, *, template_dirs: Sequence[str] = ()) -> str:
    """Return the form as an HTML fragment.

    The hub reads each template once, so a changed template requires a restart of the hub.

    :param template_dirs: the admin's template folders (a trait of KubeSpawner). A template in their subfolder
        ``gpuspawner`` replaces gpuspawner's template of the same name, and can extend it as ``gpuspawner/<name>``.
    :raises jinja2.TemplateError: a template of the admin is invalid or uses an undefined name.
    """
    page = _environment(tuple(template_dirs)).get_template(FORM_TEMPLATE).render(view=view)
    try:
        page.encode()
    except UnicodeEncodeError:
        # Replace each unpaired surrogate, which JSON may contain but UTF-8 cannot encode, by "?".
        return page.encode(errors="replace").decode()
    return page


def render_template(name: str, **values: object) -> str:
    """Return the HTML of one of gpuspawner's templates for another page than the form, in the current language."""
    return _environment(()).get_template(name).render(**values)


@lru_cache(maxsize=8)
def _environment(template_dirs: tuple[str, ...]) -> Environment:
    own = FileSystemLoader(str(data_dir("templates")))
    sites = FileSystemLoader([str(Path(folder) / "gpuspawner") for folder in template_dirs])
    loader = ChoiceLoader([sites, own, PrefixLoader({"gpuspawner": own})])
    environment = Environment(
        loader=loader,
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["_"] = gettext
    environment.globals["ngettext"] = ngettext
    environment.globals["join_sentences"] = join_sentences
    environment.globals["language"] = lambda: get_language().tag
    environment.globals["asset"] = _make_asset_reader(environment, loader)
    environment.globals["data"] = _write_data
    environment.filters["decimals"] = show_decimals
    environment.globals["rows"] = _make_row_renderer(environment)
    return environment


def _make_row_renderer(environment: Environment) -> Callable[..., Markup]:
    """Return a function for the templates: ``rows(kind, choices, picked=…, first=1, own={}, **values)``.

    ``rows`` renders the template ``partials/<kind>.html`` once for each choice, such as an image. The template
    gets these variables:

    - ``<kind>``: the choice. ``number``: its position, counted from ``first``.
    - ``is_picked``: whether ``picked`` is the slug of the choice.
    - each name in ``values``: the value given there, which is the same in all rows.
    - each name in ``own``, for example in ``{"free": {"a100": 2}}``: the value for the slug of the choice, else "".
    """

    @lru_cache(maxsize=_MAX_CACHED_ROWS)
    def row(kind: str, choice: FormRow, number: int, is_picked: bool, values: _TypedValues, _language: str) -> str:
        seen = {name: value for name, _, value in values}
        seen |= {kind: choice, "number": number, "is_picked": is_picked}
        return environment.get_template(f"partials/{kind}.html").render(seen)

    def rows(
        kind: str,
        choices: Iterable[FormRow],
        *,
        picked: str,
        first: int = 1,
        own: _ValuesBySlug = _NO_VALUES,
        **values: Hashable,
    ) -> Markup:
        shared = _add_types(values)
        written = []
        for number, each in enumerate(choices, first):
            individual = _add_types({name: values_by_slug.get(each.slug, "") for name, values_by_slug in own.items()})
            written.append(row(kind, each, number, each.slug == picked, (*shared, *individual), get_language().tag))
        return Markup("".join(written))  # noqa: S704 - autoescape is on in the rows' templates

    return rows


def _add_types(values: Mapping[str, Hashable]) -> _TypedValues:
    """Return values with their types, for the cache key of a rendered row.

    A ``str`` and a ``Markup`` with the same text are equal, but templates escape only the ``str``. Without the types in
    the key, the cache would return the same row for both.
    """
    return tuple((name, type(value), value) for name, value in values.items())


def _write_data(view: FormView) -> Markup:
    """Return the form's data as JSON for a ``<script>``."""
    return htmlsafe_json_dumps(encode_view(view), separators=(",", ":"))


def _make_asset_reader(environment: Environment, loader: BaseLoader) -> Callable[[str], Markup]:
    """Return a function for the templates: ``asset(name)`` returns a file as content of ``<style>`` or ``<script>``."""

    @lru_cache
    def written(name: str, _language: str) -> Markup:
        source, _, _ = loader.get_source(environment, name)
        # Browsers do not unescape the content of <script> and <style>. Text such as "</script" would end the element,
        # and "<!--" may hide the end tag. Replace both by escapes that mean the same text in JavaScript and CSS.
        if name.endswith(".js"):
            return Markup(_SCRIPT_BREAKERS.sub(r"\\x3c", translate_script(source)))  # noqa: S704 - our own or the admin's file
        return Markup(_STYLE_BREAKERS.sub(r"<\\/", source))  # noqa: S704 - our own or the admin's file

    return lambda name: written(name, get_language().tag)
