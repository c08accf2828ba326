from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from gpuspawner.core.errors import SettingsError
from gpuspawner.settings import Settings
from gpuspawner.settings.json_schema import build_settings_schema, build_values_schema

SCHEMA = build_settings_schema()
T4 = "resource: nvidia.com/gpu"


def is_valid(settings: object, schema: dict[str, Any] = SCHEMA) -> bool:
    return bool(jsonschema.Draft7Validator(schema).is_valid(settings))


def keys(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        for name, value in schema.get("properties", {}).items():
            yield f"{path}.{name}", value
        for name, value in schema.items():
            yield from keys(value, f"{path}.{name}")
    elif isinstance(schema, list):
        for each in schema:
            yield from keys(each, path)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{gpus: {a: {resource: google.com/tpu, vendor: other, match: {a: []}, kubespawner_override: {uid: 0}}}}",
        "{presets: {p: {cpu: 4, memory: 8G, gpu: t4, allowed_groups: [a], allowed_users: [b]}}}",
        "{gpus: {a: {resource: nvidia.com/gpu, match: {a/b: c, d: [e, f]}, memory: 80G, shm: 0.5, max_runtime: 2d}}}",
        "{images: {a: {image: a/b, cuda: '12.8', vendors: [nvidia]}, b: null}, accelerators: {t4: null}}",
        "{cpu: {max: 4}, memory: {min: 1G, max: 16 GiB, step: 512M}, run_time: null}",
        "{policy: {default: {gpus: '*', max_gpus: unlimited}, groups: {g: null, h: {gpus: [t4], enabled: false}}}}",
        "{policy: {users: {u: {gpus: {t4: {max_gpus: 2}, p4: {}}, cpu: {max: unlimited}}}}}",
        "{pools: {p: {groups: [g], max_gpus: 4, gpus: '*'}}, queue: {local_queue: q, timeout: 60}}",
        "{priorities: {p: {class: c, value: -1}}, custom_images: {allowed: true, registries: [quay.io]}}",
        "{gpus: {a: {resource: nvidia.com/gpu, max_count: null, tolerations: [{key: a, operator: Exists}]}}}",
    ],
)
def test_right_settings_are_right_for_both(text: str):
    settings = yaml.safe_load(text)
    Settings.parse(settings)
    assert is_valid(settings)


@pytest.mark.parametrize(
    "text",
    [
        "{gpu: {}}",
        "{gpus: []}",
        f"{{gpus: {{A100: {{{T4}}}}}}}",
        f"{{gpus: {{a: {{{T4}, max_cuont: 1}}}}}}",
        f"{{gpus: {{a: {{{T4}, max_count: 0}}}}}}",
        f"{{gpus: {{a: {{{T4}, max_count: '2'}}}}}}",
        f"{{gpus: {{a: {{{T4}, memory: 80Q}}}}}}",
        f"{{gpus: {{a: {{{T4}, match: {{a: true}}}}}}}}",
        f"{{gpus: {{a: {{{T4}, match: {{'a b': c}}}}}}}}",
        f"{{gpus: {{a: {{{T4}, environment: {{1X: c}}}}}}}}",
        f"{{gpus: {{a: {{{T4}, tolerations: [{{key: a, operator: Exist}}]}}}}}}",
        f"{{gpus: {{a: {{{T4}, shm: 2}}}}}}",
        f"{{gpus: {{a: {{{T4}, unit: slice}}}}}}",
        f"{{gpus: {{a: {{{T4}, scale_up: {{max_nodes: 1}}}}}}}}",
        "{gpus: {a: {resource: gpu}}}",
        "{images: {a: {image: a b}}}",
        "{images: {a: {image: a, cuda: 12.8}}}",
        "{images: {a: {image: a, architectures: [1]}}}",
        "{cpu: {min: 1}}",
        "{cpu: {max: many}}",
        "{cpu: {max: 4, guarantee: 1.5}}",
        "{memory: {max: 8h}}",
        "{run_time: {max: 8}}",
        "{policy: {default: {max_gpus: many}}}",
        "{policy: {default: {gpus: t4}}}",
        "{policy: {default: {enabled: false}}}",
        "{policy: {groups: [a]}}",
        "{pools: {p: {groups: g, max_gpus: 1}}}",
        "{queue: {}, discover_gpus: 1}",
        "{queue: {local_queue: Q}}",
        "{presets: {p: {gpu_count: -1}}}",
        "{presets: {p: {cpu: unlimited}}}",
        "{presets: {p: {allowed_groups: []}}}",
        "{presets: {p: {kubespawner_override: {}}}}",
        "{priorities: {p: {class: c, value: 5000000000}}}",
        "{accelerators: {a: {labels: {other: [x]}}}}",
    ],
)
def test_wrong_settings_are_wrong_for_both(text: str):
    settings = yaml.safe_load(text)
    with pytest.raises(SettingsError):
        Settings.parse(settings)
    assert not is_valid(settings)


def test_it_is_a_schema_of_draft_7():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert "$defs" not in str(SCHEMA)


def test_every_key_says_what_it_is():
    assert [path for path, value in keys(SCHEMA) if not value.get("description")] == []


def test_no_regular_expression_looks_ahead():
    # Helm's are Go's: https://github.com/google/re2/wiki/Syntax
    patterns = re.findall(r"'pattern': ['\"](.*?)['\"][,}]", str(SCHEMA))
    assert (len(patterns) > 10, [pattern for pattern in patterns if "(?" in pattern]) == (True, [])


def test_defaults_are_written_as_admins_write_them():
    definitions = SCHEMA["definitions"]
    found = {
        name: definitions[name]["properties"]["step"]["default"]
        for name in ("CPUSetting", "MemorySetting", "RunTimeSetting", "SharedMemorySetting")
    }
    assert found == {"CPUSetting": 0.5, "MemorySetting": "1G", "RunTimeSetting": "15m", "SharedMemorySetting": "256M"}


def test_other_keys_may_stand_beside_the_settings():
    schema = build_settings_schema({"dry_run": {"type": "boolean"}})
    found = [is_valid({"dry_run": value, "cpu": {"max": 4}}, schema) for value in (True, "x")]
    assert (found, is_valid({"dry_run": True})) == ([True, False], False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{hub: {config: {GPUSpawner: {cpu: {max: 4}}, DummyAuthenticator: {}}, x: 1}, singleuser: {}}", True),
        ("{hub: {config: {GPUSpawner: {cpu: {maxx: 4}}}}}", False),
        ("{jupyterhub: {hub: {config: {GPUSpawner: {cpu: {maxx: 4}}}}}}", False),
        ("{hub: {config: {JupyterHub: {spawner_class: 3}}}}", False),
        ("{hub: null}", True),
    ],
)
def test_values_hold_the_section(text: str, expected: bool):
    assert is_valid(yaml.safe_load(text), build_values_schema(SCHEMA)) == expected
