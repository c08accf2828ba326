"""Turns a form view into HTML: knows jinja2 and the templates folder, not where the view comes from.

The result is one fragment for the hub's own ``<form>``. CSS and JavaScript are inside it, because a spawner has no
handler to serve files from; data reaches form.js as a JSON island.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
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
from gpuspawner.core.form.build import GPU_COLUMNS, encode_gpu_row, encode_view_without_gpus
from gpuspawner.core.form.views import FormView, GPUTypeView, ImageView
from gpuspawner.core.text.i18n import get_language, gettext
from gpuspawner.hub.form.script_language import translate_script

FORM_TEMPLATE = "form.html"

_MAX_CACHED_ROWS = 512
"""About 2 KB each, and what they show."""

FormRow = ImageView | GPUTypeView
"""What a row of the form stands for."""

_Own = Mapping[str, Mapping[str, Hashable]]
_NOTHING: _Own = MappingProxyType({})
_Keyed = tuple[tuple[str, type, Hashable], ...]

_SCRIPT_BREAKERS = re.compile(r"<(?=!--|/?script)", re.IGNORECASE)
_STYLE_BREAKERS = re.compile(r"</(?=style)", re.IGNORECASE)


def render(view: FormView, *, template_dirs: Sequence[str] = ()) -> str:
    """Render the form as an HTML fragment.

    :param template_dirs: folders whose sub-folder ``gpuspawner`` holds a site's own templates, which come before the
        package's (what else is in them is KubeSpawner's: it looks for a ``form.html`` of its own there). A template may
        extend the package's one as ``gpuspawner/form.html``. Files are read once: a change needs a restart of the hub.
    :raises jinja2.TemplateError: a site's template is broken or uses a name that does not exist.
    """
    page = _environment(tuple(template_dirs)).get_template(FORM_TEMPLATE).render(view=view)
    try:
        page.encode()
    except UnicodeEncodeError:
        # JSON can hold half of a pair of surrogates, for which UTF-8 has no bytes: the hub could not send the page.
        return page.encode(errors="replace").decode()
    return page


@lru_cache(maxsize=8)
def _environment(template_dirs: tuple[str, ...]) -> Environment:
    """Return the environment for these folders; compiling the templates takes far longer than rendering them."""
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
    environment.globals["language"] = lambda: get_language().tag
    environment.globals["asset"] = _make_asset_reader(environment, loader)
    environment.globals["data"] = _make_data_writer()
    environment.globals["rows"] = _make_row_renderer(environment)
    return environment


def _make_row_renderer(environment: Environment) -> Callable[..., Markup]:
    """Return the templates' ``rows(kind, choices, picked=…, first=1, own={}, **values)``: rows of images or GPU types.

    A row is the template ``partials/<kind>.html``. It sees the choice under the name of its kind, its ``number``,
    counted from ``first`` on, whether it ``is_picked``, the values, which are hashable, and its ``own``: name → slug →
    value, empty where there is none. Nothing else. The same row is rendered once: a cluster changes by a GPU type
    or two between two forms, and to write the others again is half of all rendering where there are many.
    """

    @lru_cache(maxsize=_MAX_CACHED_ROWS)
    def row(kind: str, choice: FormRow, number: int, is_picked: bool, values: _Keyed, _language: str) -> str:
        seen = {name: value for name, _, value in values}
        seen |= {kind: choice, "number": number, "is_picked": is_picked}
        return environment.get_template(f"partials/{kind}.html").render(seen)

    def rows(
        kind: str, choices: Iterable[FormRow], *, picked: str, first: int = 1, own: _Own = _NOTHING, **values: Hashable
    ) -> Markup:
        of_all = _add_types(values)
        written = []
        for number, each in enumerate(choices, first):
            of_this = _add_types({name: of_each.get(each.slug, "") for name, of_each in own.items()})
            written.append(row(kind, each, number, each.slug == picked, (*of_all, *of_this), get_language().tag))
        return Markup("".join(written))  # noqa: S704 - autoescape is on in each of them

    return rows


def _add_types(values: Mapping[str, Hashable]) -> _Keyed:
    """Return values with their types: text that is markup already equals the same text that has yet to be escaped."""
    return tuple((name, type(value), value) for name, value in values.items())


def _make_data_writer() -> Callable[[FormView], Markup]:
    """Return the templates' ``data(view)``: what the form's script reads, as JSON that is safe inside its element.

    GPU types are kept as :func:`_make_row_renderer` keeps their rows, for the same reason.
    """

    @lru_cache(maxsize=_MAX_CACHED_ROWS)
    def row(gpu: GPUTypeView) -> str:
        return _format_json(encode_gpu_row(gpu))

    def data(view: FormView) -> Markup:
        members = {name: _format_json(value) for name, value in encode_view_without_gpus(view).items()}
        gpus = ",".join(row(gpu) for vendor in view.vendors for gpu in vendor.types)
        members["gpus"] = f'{{"names":{_format_json(GPU_COLUMNS)},"rows":[{gpus}]}}'
        written = ",".join(f'"{name}":{value}' for name, value in members.items())
        return Markup(f"{{{written}}}")  # noqa: S704 - each value is safe, and names are our own

    return data


def _format_json(value: object) -> str:
    return str(htmlsafe_json_dumps(value, separators=(",", ":")))


def _make_asset_reader(environment: Environment, loader: BaseLoader) -> Callable[[str], Markup]:
    """Return the templates' ``asset(name)``: the text of a CSS or JavaScript file, safe inside its element."""

    @lru_cache
    def written(name: str, _language: str) -> Markup:
        source, _, _ = loader.get_source(environment, name)
        # Inside <script> and <style> nothing is unescaped by the browser, so what would end (or, for a script, swallow
        # the end of) the element is written in a way that means the same in strings, regular expressions and comments.
        if name.endswith(".js"):
            return Markup(_SCRIPT_BREAKERS.sub(r"\\x3c", translate_script(source)))  # noqa: S704 - our own or the admin's file
        return Markup(_STYLE_BREAKERS.sub(r"<\\/", source))  # noqa: S704 - our own or the admin's file

    return lambda name: written(name, get_language().tag)
