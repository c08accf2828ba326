"""Generators of requests: mostly what a person would send, with one or two things wrong; some of it plain junk."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from hypothesis import strategies as st

from tests.fuzz.support import writing
from tests.fuzz.support.corpus import SURROGATES, TEXTS, TOKENS
from tests.fuzz.support.sites import GIB, MIB, MINUTE_S, Range, Site

UNLISTED = "--unlisted-choice"
TEXTS_OF_OPTIONS = {"image": ("quay.io/jupyter/scipy", "quay.io/jupyter/r"), "name": ("physics-1", "a", "x" * 40)}
"""What people write into the text fields of profiles."""

_SHORT = 300
"""Characters of those values of the corpus that are put into generated requests; the long ones have their own test."""

_FIELDS = (
    *("image", "custom_image", "cpu", "memory", "gpu", "gpu_count"),
    *("run_time", "shared_memory", "priority"),
)
_HEX = "0123456789abcdef" * 4
_REFERENCES = ("{}/scipy", "{}/a/b_c:2026-10-01", f"{{}}/x@sha256:{_HEX}", f"{{}}/x:latest@sha512:{_HEX}{_HEX}")
"""Images that users may name; what they begin with comes from the site."""
_NO_REFERENCES = (
    *("{}", "{}/", "{}-evil/x", "{}.evil.example/x", "{}//x", "{}/../evil/x", "{}/X", "{}/x:", "{}/x:{{username}}"),
    *("{}/x:-", "{}/x y", "https://{}/x", "evil.example/{}/x", "localhost/x", "x", f"{{}}/x@sha256:{_HEX[1:]}"),
)
_OTHER_NAMES = (
    *("v", "preset", "start_preset", "profile", "_xsrf", "opt-gpu", "user_options", "display_name", "next"),
    *("profile-option-a100--size", "profile-option-cpu--size", "profile-option-", "profile-option-a100--", "size"),
    *("gpus", "GPU", "gpu ", "gpu[]", "gpu_cuont", "", "__proto__", "environment", "kubespawner_override"),
)
_NAMES = st.sampled_from(_FIELDS) | st.sampled_from(_OTHER_NAMES) | st.text(max_size=12)
_JUNK = st.one_of(
    st.sampled_from([text for text in TEXTS.values() if len(text) <= _SHORT]),
    st.text(max_size=20),
    st.integers().map(str),
    st.floats().map(str),
    st.decimals().map(str),
)
_JSON_JUNK = st.one_of(
    st.sampled_from([token for token in TOKENS.values() if len(token) <= _SHORT]),
    _JUNK.map(json.dumps),
    st.text(st.characters(codec=None), max_size=20).map(json.dumps),
    st.integers().map(str),
    st.floats().map(json.dumps),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=4,
    ).map(json.dumps),
)
_UNIQUE = st.uuids().map(str)
V = TypeVar("V")
Draw = Callable[[st.SearchStrategy[Any]], Any]
Fields = list[tuple[str, str]]
Requests = Callable[[Site], st.SearchStrategy[bytes]]


def forms(site: Site) -> st.SearchStrategy[bytes]:
    """Generate bodies as browsers encode them, more or less."""
    escaping = st.sampled_from((quote_plus, quote_plus, quote, writing.bare))
    written = st.builds(lambda fields, escaped: writing.urlencoded(fields, escaped=escaped), _asked(site), escaping)
    return _damaged(written)


def uploads(site: Site) -> st.SearchStrategy[bytes]:
    """Generate bodies in parts, now and then with a field that is a file."""
    file = st.sampled_from(("",) * 12 + _FIELDS)
    return _damaged(st.builds(lambda fields, name: writing.multipart(fields, as_file=name), _asked(site), file))


def links(site: Site) -> st.SearchStrategy[bytes]:
    """Generate queries with JupyterHub's prefix, without, or with a second one."""
    prefix = st.sampled_from(("opt-", "opt-", "", "opt-opt-"))
    escaping = st.sampled_from((quote, quote_plus, writing.bare))

    def written(fields: Fields, before: str, escaped: Callable[[str], str]) -> bytes:
        return writing.query(fields, prefix=before, escaped=escaped)

    return _damaged(st.builds(written, _asked(site, is_link=True), prefix, escaping))


def objects(site: Site) -> st.SearchStrategy[bytes]:
    """Generate JSON: options as an object, now and then inside another one, and JSON of every other kind."""
    return _damaged(_json(site))


def headers(site: Site) -> st.SearchStrategy[bytes]:
    """Generate what an open form's script sends: texts by field, as JSON."""
    surrogates = st.sampled_from(list(SURROGATES.values()))
    texts = st.builds(lambda fields, more: json.dumps(dict(fields) | more).encode(), _asked(site), _maybe(surrogates))
    return _damaged(texts | objects(site))


def _maybe(values: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, str]]:
    return st.one_of(st.just({}), st.dictionaries(st.sampled_from(_FIELDS), values, max_size=1))


@st.composite
def _json(draw: Draw, site: Site) -> bytes:
    kind = _one(draw, ("object",) * 18 + ("object in object", "anything"))
    if kind == "anything":
        return draw(_JSON_JUNK).encode()
    options = writing.json_object(draw(_asked(site, is_json=True)))
    return options if kind == "object" else b'{"user_options": %b}' % options


@st.composite
def _damaged(draw: Draw, requests: st.SearchStrategy[bytes]) -> bytes:
    """Cut one in sixteen off, or put bytes into it."""
    body = draw(requests)
    if not _one(draw, (False,) * 15 + (True,)):
        return body
    place = draw(st.integers(0, len(body)))
    return body[:place] + draw(st.binary(max_size=3)) + body[place + draw(st.integers(0, 3)) :]


@st.composite
def _asked(draw: Draw, site: Site, *, is_json: bool = False, is_link: bool = False) -> Fields:
    """Generate fields: what is offered, then up to two changes."""
    is_profile = bool(site.profiles) and (not site.has_fields or _one(draw, (True, False)))
    fair = _fair_profile if is_profile else _fair
    fields = fair(draw, site, is_json=is_json, is_link=is_link)
    changes = (_put, _put, _near, _near, _add, _repeat, _swap, _drop, _rename)
    if is_profile:
        changes = (_put, _add, _repeat, _swap, _drop, _rename, *(_mix_up,) * 6)
    for _ in range(_one(draw, (0, 0, 1, 1, 2))):
        change = _one(draw, changes)
        change(draw, fields, site=site, is_json=is_json)
    return fields


def _fair(draw: Draw, site: Site, *, is_json: bool, is_link: bool) -> Fields:
    """Draw fields that are all offered, and written in one of the ways that are understood."""
    values: dict[str, object] = {}
    image = _one(draw, (None, *site.images))
    if site.origins and _one(draw, (False,) * 5 + (True,)):
        image, values["custom_image"] = None, _one(draw, _REFERENCES).format(_one(draw, site.origins))
    vendors = None if "custom_image" in values else site.images[image or site.default_image].vendors
    cards = [slug for slug, card in site.cards.items() if vendors is None or card.vendor in vendors]
    gpu = _one(draw, ("", "", *cards, *cards))
    if image is not None:
        values["image"] = image
    if gpu or _one(draw, (True, False)):
        values["gpu"] = gpu or (None if is_json else "")
    if gpu and _one(draw, (True, False)):
        count = _one(draw, range(1, site.cards[gpu].most + 1))
        values["gpu_count"] = count if is_json else str(count)
    if _one(draw, (True, True, True, False)):
        values["cpu"] = _cpu(draw, _step(draw, site.cpu), is_json=is_json)
    if _one(draw, (True, True, True, False)):
        values |= _memories(draw, site, is_json=is_json)
    values |= _rarer(draw, site, is_json=is_json)
    if is_json or is_link:
        values |= _one(draw, ({}, {}, {"v": 1 if is_json else "1"}))
    if is_json:
        values |= _one(draw, ({}, {}, {"profile": "A summary"}, {"profile": ["junk"]}))
    return [(name, json.dumps(value) if is_json else str(value)) for name, value in values.items()]


def _fair_profile(draw: Draw, site: Site, *, is_json: bool, is_link: bool) -> Fields:
    """Draw a profile and choices in its options, as a card, a link or JSON says them."""
    profile = _one(draw, site.profiles)
    slug, chosen = profile["slug"], {}
    for name, option in profile.get("profile_options", {}).items():
        choices = tuple(option.get("choices", ()))
        if "unlisted_choice" in option and (not choices or _one(draw, (False, False, True))):
            if not is_json and choices:
                chosen[name] = ""
            chosen[f"{name}{UNLISTED}"] = _one(draw, TEXTS_OF_OPTIONS[name])
        elif _one(draw, (True, True, False)):
            chosen[name] = _one(draw, choices)
    prefix = "" if is_json else f"profile-option-{slug}--"
    fields = [("profile", slug), *((f"{prefix}{name}", text) for name, text in chosen.items())]
    # KubeSpawner reads no others; so that requests differ, and a card's form has those of the other cards as well.
    fields.append((_one(draw, ("noise", "profile-option-noise--size")), draw(_UNIQUE)))
    return [(name, json.dumps(text)) for name, text in fields] if is_json else fields


def _step(draw: Draw, bounds: Range, *, most: int | None = None) -> int:
    return _one(draw, range(bounds.least, min(bounds.most, most or bounds.most) + 1, bounds.step))


def _cpu(draw: Draw, millis: int, *, is_json: bool) -> object:
    number = millis / 1000
    return _one(draw, (number if is_json else str(number), f"{number:g}", f"{millis}m", f" {number} "))


def _rarer(draw: Draw, site: Site, *, is_json: bool) -> dict[str, object]:
    values: dict[str, object] = {}
    if site.run_time is not None and _one(draw, (True, False)):
        values["run_time"] = _run_time(draw, _step(draw, site.run_time), is_json=is_json)
    if site.priorities and _one(draw, (True, False)):
        values["priority"] = _one(draw, ("", *site.priorities))
    return values


def _memories(draw: Draw, site: Site, *, is_json: bool) -> dict[str, object]:
    size = _step(draw, site.memory)
    memory = {"memory": _memory(draw, size, is_json=is_json)}
    if site.shared_memory is None or _one(draw, (True, False)):
        return memory
    return memory | {"shared_memory": _memory(draw, _step(draw, site.shared_memory, most=size), is_json=is_json)}


def _memory(draw: Draw, size: int, *, is_json: bool) -> object:
    gib, mib = size / GIB, size // MIB
    return _one(draw, (size if is_json else f"{gib:g}", f"{gib:g}G", f"{mib} MiB", f"{mib}mb", f"{size}B"))


def _run_time(draw: Draw, length_s: int, *, is_json: bool) -> str:
    hours, minutes = divmod(length_s // MINUTE_S, 60)
    written = (f"{60 * hours + minutes}m", f"{hours}h{minutes}m", f" {hours} HOURS {minutes} min ")
    # A number alone means hours, but not in JSON.
    return _one(draw, written if minutes or is_json else (*written, f"{hours}"))


def _one(draw: Draw, options: Sequence[V]) -> V:
    # A ``sampled_from`` made anew each time takes three times as long.
    return options[draw(_index(len(options)))]


@cache
def _index(length: int) -> st.SearchStrategy[int]:
    return st.integers(0, length - 1)


# -- changes -----------------------------------------------------------------------------------------------------------


def _put(draw: Draw, fields: Fields, *, site: Site, is_json: bool) -> None:
    """Put junk, or another field's value, into a field."""
    name = _one(draw, _FIELDS)
    if _one(draw, (True, True, False)):
        _set(fields, name, draw(_JSON_JUNK if is_json else _JUNK))
        return
    written = _one(draw, _REFERENCES + _NO_REFERENCES).format(_one(draw, site.origins or ("quay.io",)))
    known = _one(draw, (*site.images, *site.cards, *site.presets, "1", "4G", written, written))
    _set(fields, name, json.dumps(known) if is_json else known)


def _mix_up(draw: Draw, fields: Fields, *, site: Site, is_json: bool) -> None:
    """Name a profile that is not there, or an entry or text that is another option's, or that is not there."""
    given = dict(fields).get("profile", "")
    slug = json.loads(given) if is_json and given else given
    options = next((profile.get("profile_options", {}) for profile in site.profiles if profile["slug"] == slug), {})
    names = [name for option in options for name in (option, f"{option}{UNLISTED}")]
    text: object = _one(draw, ("four", "large", "gone", "quay.io/jupyter/Lab", "evil/lab", "a b", ""))
    if _one(draw, (True, False)):
        text = json.loads(draw(_JSON_JUNK)) if is_json else draw(_JUNK)
    if not names or _one(draw, (True, False, False)):
        name, text = "profile", _one(draw, ("a100", "gone", "A100", text))
    else:
        name = _one(draw, names) if is_json else f"profile-option-{slug}--{_one(draw, names)}"
    _set(fields, name, json.dumps(text) if is_json else str(text))


def _near(draw: Draw, fields: Fields, *, site: Site, is_json: bool) -> None:
    """Put a number in that is only just right or wrong."""
    name = _one(draw, ("cpu", "memory", "gpu_count", *(("run_time",) if site.run_time else ())))
    off = _one(draw, (-1, 0, 1))
    if name == "gpu_count":
        most = _one(draw, (0, 1, 2**31, 2**63, *(card.most for card in site.cards.values())))
        number = str(most + off)
        _set(fields, name, _one(draw, (number, f"{number}.0", f'"{number}"')) if is_json else number)
        return
    bounds = site.cpu if name == "cpu" else site.run_time if site.run_time and name == "run_time" else site.memory
    edge = _one(draw, (0, bounds.least, bounds.most, bounds.most * 1000, -bounds.least))
    amount = edge + off * _one(draw, (1, bounds.step))
    if name == "cpu":
        ways = (f"{amount}m", f"{amount / 1000}", f"{amount / 1000:.20f}", f"{amount / 1000:e}")
    elif name == "run_time":
        ways = (f"{amount // MINUTE_S}m", f"{amount / 3600}h", f"{amount / 86_400}d", f"{amount / 3600}", f"{amount}s")
    else:
        ways = (f"{amount}B", f"{amount / GIB}G", f"{amount // MIB}M", f"{amount / GIB}", f"{amount}")
    text = _one(draw, ways)
    is_number = is_json and name == "cpu" and not text.endswith("m") and _one(draw, (True, False))
    _set(fields, name, text if is_number or not is_json else json.dumps(text))


def _add(draw: Draw, fields: Fields, *, site: Site, is_json: bool) -> None:
    """Add a field, most often an unknown one, or a preset."""
    name = draw(_NAMES)
    value = _one(draw, (*site.presets, "gone")) if "preset" in name else draw(_JUNK)
    fields.append((name, json.dumps(value) if is_json else value))


def _repeat(draw: Draw, fields: Fields, *, site: Site, is_json: bool) -> None:
    """Send a field twice, the second time perhaps with another value."""
    if fields:
        name, value = _one(draw, fields)
        fields.append((name, _one(draw, (value, '"4"' if is_json else "4"))))


def _swap(draw: Draw, fields: Fields, *, site: Site, is_json: bool) -> None:
    """Give each field the next one's value."""
    fields[:] = [(name, fields[index - 1][1]) for index, (name, _) in enumerate(fields)]


def _drop(draw: Draw, fields: Fields, *, site: Site, is_json: bool) -> None:
    if fields:
        fields.remove(_one(draw, fields))


def _rename(draw: Draw, fields: Fields, *, site: Site, is_json: bool) -> None:
    if fields:
        index = _one(draw, range(len(fields)))
        fields[index] = (draw(_NAMES), fields[index][1])


def _set(fields: Fields, name: str, value: str) -> None:
    fields[:] = [(each, text) for each, text in fields if each != name]
    fields.append((name, value))
