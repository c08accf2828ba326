from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.catalog.image_reference import (
    EXAMPLE_REFERENCE,
    MAX_REFERENCE_LENGTH,
    ImageReference,
    parse_origin,
    parse_reference,
)

SHA256 = "sha256:" + "0a" * 32
SHA512 = "sha512:" + "0a" * 64

WORDS = st.text("az09", min_size=1, max_size=4)
SEPARATORS = st.sampled_from([".", "_", "__", "-", "---"])
PARTS = st.builds(
    lambda first, more: first + "".join(sign + word for sign, word in more),
    WORDS,
    st.lists(st.tuples(SEPARATORS, WORDS), max_size=2),
)
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
HOSTS = st.sampled_from(["localhost", "quay.io", "Quay.IO", "a-b.c.example", "10.0.0.1", "[::1]", "[2001:DB8::1]"])
PORTS = st.integers(0, 99_999).map(lambda port: f":{port}")
REGISTRIES = HOSTS | st.builds(str.__add__, HOSTS, PORTS)
NAMES = st.tuples(REGISTRIES, PATHS).map("/".join)
TAGS = st.just("") | st.builds(
    str.__add__, st.sampled_from("aZ0_"), st.text("aZ09_.-", max_size=12) | st.just("t" * 127)
)
DIGESTS = st.sampled_from(["", SHA256, SHA512])
NEAR_MISSES = st.text(alphabet="aA0.:/@_-[]{} é\n", max_size=30) | st.text(max_size=30)


def text_of(name: str, tag: str, digest: str) -> str:
    return f"{name}{':' if tag else ''}{tag}{'@' if digest else ''}{digest}"


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("python", "docker.io/library/python"),
        ("python:3.12-slim", "docker.io/library/python:3.12-slim"),
        ("jupyter/scipy-notebook", "docker.io/jupyter/scipy-notebook"),
        ("docker.io/python", "docker.io/library/python"),
        ("index.docker.io/python:3", "docker.io/library/python:3"),
        ("Docker.IO/jupyter/x", "docker.io/jupyter/x"),
        (EXAMPLE_REFERENCE, EXAMPLE_REFERENCE),
        ("Quay.io/jupyter/x:TAG", "quay.io/jupyter/x:TAG"),
        ("localhost/devcluster/notebook:1", "localhost/devcluster/notebook:1"),
        ("localhost:5000", "docker.io/library/localhost:5000"),
        ("quay.io:443", "docker.io/library/quay.io:443"),
        ("registry:5000/x", "registry:5000/x"),
        ("[2001:DB8::1]:5000/x", "[2001:db8::1]:5000/x"),
        ("LocalHost/x", "localhost/x"),
        (f"ghcr.io/acme/a__b--c.d@{SHA256}", f"ghcr.io/acme/a__b--c.d@{SHA256}"),
        (f"ghcr.io/acme/x:1@{SHA512}", f"ghcr.io/acme/x:1@{SHA512}"),
    ],
)
def test_a_reference_is_written_out_in_full(text: str, full: str):
    found = parse_reference(text)
    assert found is not None
    assert found.full == full


def test_a_reference_has_parts():
    assert parse_reference(f"Ghcr.io/acme/lab:v1@{SHA256}") == ImageReference(
        registry="ghcr.io", repository="acme/lab", tag="v1", digest=SHA256
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " python",
        "python\n",
        "Python",
        "quay.io/Jupyter/x",
        "quay.io/jupyter/x:",
        "quay.io/jupyter/x@",
        "quay.io/",
        "/x",
        "quay.io//x",
        "https://quay.io/jupyter/x",
        "quay.io./x",
        "-quay.io/x",
        "foo.bar_x/baz",
        "Acme/x",
        "[ab]/x",
        "a/b:c/d",
        "x:" + "t" * 129,
        "x:-t",
        "x:a b",
        "x..y",
        "x___y",
        "x-",
        "{username}",
        "quay.io/{username}/x",
        "quay.io/x:{tag}",
        "qua\u0443.io/x",
        "x:\u0661",
        "<b>",
        "[::1]",
        "a" * 256,
        "quay.io/" + "a" * 248,
        "0a" * 32,
        "x@sha256:" + "0a" * 31,
        "x@sha256:" + "0A" * 32,
        "x@md5:" + "0a" * 16,
    ],
)
def test_anything_else_is_none(text: str):
    assert parse_reference(text) is None


@given(REGISTRIES, PATHS, TAGS, DIGESTS)
def test_a_reference_made_of_parts_is_parsed_into_them(registry: str, path: str, tag: str, digest: str):
    expected = ImageReference(registry=registry.lower(), repository=path, tag=tag, digest=digest)
    assert parse_reference(text_of(f"{registry}/{path}", tag, digest)) == expected


@given(PATHS | NAMES | NEAR_MISSES, TAGS, DIGESTS)
def test_a_full_name_stands_for_itself_and_holds_nothing_that_could_be_expanded(name: str, tag: str, digest: str):
    found = parse_reference(text_of(name, tag, digest))
    if found is None:
        return
    assert parse_reference(found.full) == found
    assert len(found.full) <= MAX_REFERENCE_LENGTH
    assert found.full.isascii()
    assert found.full.isprintable()
    assert set(found.full).isdisjoint(" {}$<>&'\"\\")


def test_the_longest_reference_is_as_long_as_a_text_may_be():
    longest = f"quay.io/{'a' * 247}:{'t' * 128}@{SHA512}"
    found = parse_reference(longest)
    assert found is not None
    assert (found.full, len(longest)) == (longest, MAX_REFERENCE_LENGTH)


@pytest.mark.parametrize(
    "part", ["a", "-", "a-", "a.", "a/", "a_", "a__", "0:", "a:", "[", "[::", "@", "sha256:", "A."]
)
def test_a_hostile_text_costs_no_more_than_any_other(part: str):
    # Where the grammar could match a text in more than one way, these would take longer than the universe is old.
    hostile = (part * MAX_REFERENCE_LENGTH)[: MAX_REFERENCE_LENGTH - 1] + "!"
    assert (parse_reference(hostile), parse_origin(hostile[-255:])) == (None, None)


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("quay.io", "quay.io"),
        ("Quay.IO/jupyter", "quay.io/jupyter"),
        ("localhost", "localhost"),
        ("registry:5000/team/ml", "registry:5000/team/ml"),
        ("docker.io", "docker.io"),
        ("index.docker.io/library", "docker.io/library"),
    ],
)
def test_an_origin_is_a_registry_or_the_beginning_of_names_in_one(text: str, origin: str):
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        *("", "acme", "acme/x", "Acme", "quay.io/", "/quay.io", "quay.io//x", "https://quay.io", "*.io", "quay.io/X"),
        *("quay.io/x:1", "quay.io ", "quay.io\n", "quay.io/" + "a" * 255),
    ],
)
def test_anything_else_is_no_origin(text: str):
    assert parse_origin(text) is None


@pytest.mark.parametrize(
    ("text", "origin", "expected"),
    [
        ("quay.io/jupyter/x:1", "quay.io", True),
        ("QUAY.io/jupyter/x:1", "quay.io/jupyter", True),
        ("quay.io/jupyter/x:1", "quay.io/jupyter/x", True),
        ("quay.io.evil.com/jupyter/x", "quay.io", False),
        ("evil.com/quay.io/x", "quay.io", False),
        ("quay.io:5000/x", "quay.io", False),
        ("ghcr.io/acme-evil/x", "ghcr.io/acme", False),
        ("ghcr.io/acme/x", "ghcr.io/acme-evil", False),
        ("python", "docker.io", True),
        ("python", "docker.io/library", True),
        ("quay.io", "quay.io", False),
        ("quay.io/x", "docker.io", False),
    ],
)
def test_the_registry_of_an_image_is_matched_by_whole_parts(text: str, origin: str, expected: bool):
    found = parse_reference(text)
    assert found is not None
    assert found.is_from(origin) is expected


@given(NAMES, st.integers(0, 5), st.text(alphabet="ab0.-_", min_size=1, max_size=3))
def test_an_image_comes_from_each_beginning_of_its_name_and_from_no_longer_one(name: str, parts: int, more: str):
    found = parse_reference(name)
    assert found is not None
    origin = parse_origin("/".join(name.split("/")[: parts + 1]))
    assert origin is not None
    assert found.is_from(origin)
    assert not found.is_from(f"{found.name}{more}")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("python", "docker.io/library/python:latest", True),
        ("python:3", "python", False),
        (f"python:3@sha256:{'0a' * 32}", f"python:4@sha256:{'0a' * 32}", True),
        (f"python@sha256:{'0a' * 32}", "python", False),
        (f"python@sha256:{'0a' * 32}", f"quay.io/library/python@sha256:{'0a' * 32}", False),
    ],
)
def test_references_stand_for_the_same_image_where_the_same_is_pulled(one: str, other: str, expected: bool):
    first, second = parse_reference(one), parse_reference(other)
    assert first is not None
    assert second is not None
    assert (first.pulled == second.pulled) is expected
