"""Any request leads to a pod that is offered or a refusal that names its field, and to a form that can be shown.

Each request goes through the door that JupyterHub has for it, as bytes. ``make test-fuzz EXAMPLES=200000`` sends more,
and others each time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given

from tests.fuzz.support import corpus, doors, generators, writing
from tests.fuzz.support.sites import SITES, Site
from tests.fuzz.support.stand import Stand
from tests.fuzz.support.tally import ACCEPTED, REFUSED, SHOWN, Tally

EXAMPLES = int(os.environ.get("GPUSPAWNER_FUZZ_EXAMPLES", "0"))
"""How many requests to send instead of 20,000, chosen anew each time."""
SOME, ALL = 2_000, EXAMPLES or 20_000
"""Different requests that reach a spawner in a run of one tier."""

FIELDS = (
    *("image", "custom_image", "cpu", "memory", "gpu", "gpu_count", "run_time", "shared_memory", "priority"),
    *("v", "preset", "start_preset", "unknown"),
)
FEW_FIELDS = ("v", "gpu", "preset", "profile", "unknown")
"""Fields of a site that has the profiles of one site and the fields of another: the other sites get them all."""
OPTIONS = ("count", "image--unlisted-choice", "count--unlisted-choice", "none")
"""Options of the profile ``a100``, and one that it lacks."""
SLOW_S = 5.0
"""Processor time for one request and all checks after it; the hub answers no other request meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A door, what is generated for it, and what of the corpus can be sent through it."""

    door: doors.Door
    requests: generators.Requests
    write: Callable[[writing.Pairs], bytes]
    values: dict[str, str]
    bodies: dict[str, bytes]


WAYS = {
    "form": Way(
        door=doors.form,
        requests=generators.forms,
        write=writing.urlencoded,
        values=dict(corpus.TEXTS),
        bodies=dict(corpus.FORM_BODIES),
    ),
    "upload": Way(
        door=doors.upload,
        requests=generators.uploads,
        write=writing.multipart,
        values=dict(corpus.TEXTS),
        bodies=dict(corpus.UPLOAD_BODIES),
    ),
    "link": Way(
        door=doors.link,
        requests=generators.links,
        write=writing.query,
        values=dict(corpus.TEXTS),
        bodies=dict(corpus.FORM_BODIES),
    ),
    "REST": Way(
        door=doors.api,
        requests=generators.objects,
        write=writing.json_object,
        values=dict(corpus.TOKENS),
        bodies=dict(corpus.JSON_BODIES),
    ),
}

pytestmark = pytest.mark.timeout(max(300, ALL // len(WAYS) // len(SITES) // 5))


@pytest.fixture(params=[pytest.param(SOME, id="some", marks=pytest.mark.smoke), pytest.param(ALL, id="all")])
def promised(request: pytest.FixtureRequest) -> int:
    """Different requests of all tests together."""
    return int(request.param)


@pytest.fixture
def share(promised: int) -> int:
    """Different requests for each way in and each site."""
    return -(-promised // (len(WAYS) * len(SITES)))


def often(examples: int) -> hypothesis.settings:
    """Return settings for so many examples: always the same ones, unless their number was given."""
    return hypothesis.settings(
        max_examples=examples + 100,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        print_blob=True,
        # To say which lines a failure ran takes a trace of each request, and three times as long.
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize("way", WAYS)
def test_generated_requests_are_accepted_or_refused(way: str, stand: Stand, share: int):
    tally = Tally(wanted=share)

    # Enough of them, though some come twice and some reach no spawner.
    @often(share * 2)
    @given(WAYS[way].requests(stand.site))
    def each(sent: bytes) -> None:
        hypothesis.note(f"sent: {sent!r}")
        assert stand.ask(WAYS[way].door, sent, tally=tally) == []

    each()
    assert tally.answered >= share
    assert min(tally.count(ACCEPTED), tally.count(REFUSED)) >= share // 8


@pytest.mark.parametrize("door", [doors.header, doors.refresh], ids=["page", "data"])
def test_whatever_an_open_forms_script_says_the_form_is_shown(stand: Stand, door: doors.Door, share: int):
    tally = Tally()

    @often(share // 5)
    @given(generators.headers(stand.site))
    def each(sent: bytes) -> None:
        hypothesis.note(f"sent: {sent!r}")
        assert stand.ask(door, sent, tally=tally) == []

    each()
    assert tally.count(SHOWN) >= share // 10


@pytest.mark.parametrize("way", WAYS)
def test_nasty_requests_are_accepted_or_refused_in_time(way: str, stand: Stand):
    tally = Tally()
    nasty = _nasty(WAYS[way], stand.site, is_json=way == "REST")
    answers = {name: _answered(stand, WAYS[way].door, sent=sent, tally=tally) for name, sent in nasty}
    assert {name: faults for name, faults in answers.items() if faults} == {}
    assert tally.count(REFUSED) >= len(WAYS[way].values)


def _nasty(way: Way, site: Site, *, is_json: bool) -> Iterator[tuple[str, bytes]]:
    """Yield each body of the corpus, and each value in each field of a request that is fine otherwise."""
    yield from way.bodies.items()
    fields = (*FIELDS, "profile") if site.has_fields else ("profile",)
    if site.profiles and site.has_fields:
        fields = FEW_FIELDS
    slug, prefix = ('"a100"', "") if is_json else ("a100", "profile-option-a100--")
    for name, value in way.values.items():
        for field in fields:
            yield f"{name} as {field}", way.write([(field, value)])
        for option in OPTIONS if site.profiles else ():
            yield f"{name} as option {option}", way.write([("profile", slug), (f"{prefix}{option}", value)])


def _answered(stand: Stand, door: doors.Door, *, sent: bytes, tally: Tally) -> list[str]:
    """Return what is wrong with an answer; an error is."""
    began = time.process_time()
    try:
        found = stand.ask(door, sent, tally=tally)
    except Exception as error:  # noqa: BLE001 - any is one too many, and the others are to be seen as well
        return [f"{type(error).__name__}: {error}"[:1000]]
    took_s = time.process_time() - began
    return found if took_s <= SLOW_S else [*found, f"took {took_s:.1f} s"]
