"""A law of `gpuspawner convert`: each choice gives the same server for the same users, or a note says what differs."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuspawner.cli.compare import Scope
from gpuspawner.cli.compare.comparison import ChoiceOutcome, ChoiceResult
from gpuspawner.cli.convert import (
    ProfileSource,
    build_values,
    convert_source,
    read_profile_source,
    verify,
    write_values,
)
from gpuspawner.cli.main import main
from gpuspawner.core.errors import SettingsError
from gpuspawner.settings.profiles import ConvertedProfiles, Effect

KEYS = st.sampled_from(["a", "b_c", "D", "1", "é", "a-b"])
BAD_PATTERN = "("
WORDS = st.sampled_from(["x", "yes", "1e3", "{username}", "/home", "null"])
CPU_LIMITS = st.sampled_from([None, 0, 1, 2.5, 8])
CPU_GUARANTEES = st.sampled_from([None, 0, 0.5, 0.12345, 4])
MEMORY_LIMITS = st.sampled_from([None, "2G", 1951419879, 3e9, "0.5G", 0])
MEMORY_GUARANTEES = st.sampled_from([None, "512M", "1G", "0.1G", 0])
COUNTS = st.sampled_from([None, 0, 1, "2", 4])
RESOURCES = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "google.com/tpu", "rdma/hca"]), COUNTS, max_size=2
)
LABELS = st.dictionaries(
    st.sampled_from(["pool", "topology.kubernetes.io/zone", "cloud.google.com/gke-accelerator"]),
    st.sampled_from(["nvidia-tesla-t4", "b", None]),
    max_size=2,
)
TERM = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
OVERRIDES = st.fixed_dictionaries(
    {},
    optional={
        "image": st.sampled_from(["q/x:1", "r/x:1", "quay.io/a/b@sha256:" + "0" * 64]),
        "cpu_limit": CPU_LIMITS,
        "cpu_guarantee": CPU_GUARANTEES,
        "mem_limit": MEMORY_LIMITS,
        "mem_guarantee": MEMORY_GUARANTEES,
        "extra_resource_limits": RESOURCES,
        "node_selector": LABELS,
        "environment": st.dictionaries(st.sampled_from(["A", "B"]), st.none() | WORDS, max_size=2),
        "tolerations": st.sampled_from([[], [{"key": "k", "operator": "Exists"}]]),
        "node_affinity_required": st.just([TERM]),
        "default_url": st.sampled_from(["/lab", "/user/{username}/x"]),
        "start_timeout": st.sampled_from([60, 900]),
        "image_pull_policy": st.sampled_from(["Always", "IfNotPresent"]),
        "extra_labels": st.dictionaries(KEYS.filter(str.isascii), st.none() | st.just("v"), max_size=2),
        "volumes": st.sampled_from([[], [{"name": "v", "emptyDir": {}}], {"v": {"name": "w", "emptyDir": {}}}]),
        "init_containers": st.just([{"name": "i", "image": "q/i", "command": ["sh", "-c", "true"]}]),
        "extra_pod_config": st.sampled_from([{"runtimeClassName": "nvidia"}, {"nodeSelector": {"disk": "ssd"}}]),
        "extra_container_config": st.just({"securityContext": {"runAsUser": 0}}),
        "lifecycle_hooks": st.just({"postStart": {"exec": {"command": ["sh", "-c", "echo ${HOME}"]}}}),
        "uid": st.sampled_from([None, 0, 1000]),
        "cmd": st.just(["start.sh", "jupyterhub-singleuser"]),
        "priority_class_name": st.just("high"),
        "no_such_trait": st.just(1),
        "mem_gurantee": st.just("1G"),
        "working_dir": st.sampled_from(["/srv", "/data", "/home/{username}", 1]),
    },
)
ACCESS = st.fixed_dictionaries(
    {},
    optional={
        "allowed_groups": st.lists(st.sampled_from(["tutors", "Org:Team", "ß"]), max_size=2),
        "allowed_users": st.lists(st.sampled_from(["ada"]), max_size=1),
    },
)
CHOICES = st.builds(
    lambda access, rest: {**access, **rest},
    ACCESS,
    st.fixed_dictionaries({"kubespawner_override": OVERRIDES}, optional={"default": st.booleans()}),
)
UNLISTED = st.fixed_dictionaries(
    {
        "enabled": st.booleans(),
        "kubespawner_override": st.sampled_from(
            [{"image": "{value}"}, {"image": "{value}", "uid": 0}, {"default_url": "{value}"}, {"image": "q/{value}"}]
        ),
    },
    optional={"validation_regex": st.sampled_from(["^.+:.+$", "^registry", BAD_PATTERN])},
)
OPTIONS = st.dictionaries(
    KEYS,
    st.fixed_dictionaries(
        {"choices": st.dictionaries(KEYS, CHOICES, max_size=3)}, optional={"unlisted_choice": UNLISTED}
    ),
    max_size=3,
)
NAMES = st.sampled_from(["GPU", "小さい", "Größe \U0001f600", "<b>x</b>", "yes", "…"]) | st.text(
    st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9
)
PROFILES = st.builds(
    lambda access, rest: {**access, **rest},
    ACCESS,
    st.fixed_dictionaries(
        {"display_name": NAMES.filter(str.strip), "kubespawner_override": OVERRIDES},
        optional={"slug": st.sampled_from(["s", "Big_One", "é"]), "profile_options": OPTIONS, "default": st.booleans()},
    ),
)
CHART = st.fixed_dictionaries(
    {"profileList": st.lists(PROFILES, min_size=1, max_size=3)},
    optional={
        "image": st.sampled_from([{"name": "q/base", "tag": "1"}, {"name": "q/base"}]),
        "cpu": st.fixed_dictionaries({}, optional={"limit": CPU_LIMITS, "guarantee": CPU_GUARANTEES}),
        "memory": st.fixed_dictionaries({}, optional={"limit": MEMORY_LIMITS, "guarantee": MEMORY_GUARANTEES}),
        "nodeSelector": st.just({"pool": "base"}),
        "extraEnv": st.just({"A": "base"}),
        "extraResource": st.just({"limits": {"nvidia.com/gpu": 1}}),
    },
)


def is_named(result: ChoiceResult, converted: ConvertedProfiles, *, has_bad_pattern: bool) -> bool:
    """Return whether a note says why a choice is different, or whether the old list started no server for it.

    :param has_bad_pattern: whether the list has a pattern that is no regular expression, so that no text matches it.
    """
    if result.outcome is ChoiceOutcome.UNKNOWN:
        return "KubeSpawner refuses it" in result.reason or (has_bad_pattern and "no text is known" in result.reason)
    needed = {Effect.REFUSED} if result.widens or result.changes_resources else {Effect.REFUSED, Effect.DIFFERS}
    is_default = not result.pair.old_options
    if (
        is_default
        and not result.widens
        and any(each.old.startswith("KubeSpawner refuses it") for each in result.differences)
    ):
        return True  # The old default started no server, for example because an option had no choice for this user.
    return any(
        (is_default or result.pair.label.startswith(note.profile.split(" · ")[0]))
        and (note.cause.effect in needed or (is_default and note.cause.effect is Effect.DIFFERS))
        for note in converted.notes
    )


def convert_if_possible(source: ProfileSource) -> ConvertedProfiles | None:
    """Return the settings, or None if no profile of the list could start a server."""
    try:
        return convert_source(source)
    except SettingsError as error:
        if "has no profile with which a server could start" not in str(error):
            raise
        return None


@pytest.mark.timeout(240)  # 20 s alone, and several times as long beside a cluster
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(CHART)
def test_each_choice_gives_the_same_server_or_the_difference_is_named(tmp_path_factory: Any, singleuser: Any):
    file = tmp_path_factory.mktemp("law") / "values.yaml"
    file.write_text(json.dumps({"singleuser": singleuser}, ensure_ascii=False))
    source = read_profile_source([str(file)], io.StringIO())
    converted = convert_if_possible(source)
    if converted is None:
        return
    values = build_values(source, converted)
    report = verify(source, converted, values=values, scope=Scope(limit=40))
    has_bad_pattern = f'"{BAD_PATTERN}"' in json.dumps(singleuser)
    wrong = [
        each
        for each in report.results
        if each.outcome is not ChoiceOutcome.SAME and not is_named(each, converted, has_bad_pattern=has_bad_pattern)
    ]
    assert not wrong, [(each.pair, each.outcome, each.details) for each in wrong]
    out = io.StringIO()
    write_values(values, out, output="yaml")
    new = file.with_name("new.yaml")
    new.write_text(out.getvalue())
    assert yaml.safe_load(out.getvalue()) == json.loads(json.dumps(values))
    assert main(["check", "--strict", str(new)]) == 0
