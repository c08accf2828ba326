from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuspawner.cli.check.misplaced_values import find_unread_keys
from gpuspawner.cli.common.findings import Severity
from tests.unit.cli_support import section, written

HERE = "is ignored here"


def found(folder: Path, text: str) -> list[tuple[str, int, str]]:
    return [
        (each.path, each.place.line if each.place else 0, each.message)
        for each in find_unread_keys(written(folder, text))
    ]


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("hub:\n  GPUSpawner: {cpu: {max: 4}}", "hub.GPUSpawner", 2),
        ("GPUSpawner: {cpu: {max: 4}}", "GPUSpawner", 1),
        ("hub:\n  config:\n    gpuspawner: {cpu: {max: 4}}", "hub.config.gpuspawner", 3),
        ("hub:\n  config:\n    GPUSpwaner: {}", "hub.config.GPUSpwaner", 3),
        ("hub:\n  config:\n    GPUSpawners:\n", "hub.config.GPUSpawners", 3),
        ("hub:\n  conifg:\n    GPUSpawner: {}", "hub.conifg", 2),
        ("Hub:\n  config:\n    GPUSpawner: {}", "Hub", 1),
        ("singleuser:\n  gpuSpawner: {}", "singleuser.gpuSpawner", 2),
        ("hub:\n  config:\n    KubeSpawner:\n      GPUSpawner: {}", "hub.config.KubeSpawner.GPUSpawner", 4),
        ("hub:\n  JupyterHub: {spawner_class: x}", "hub.JupyterHub", 2),
    ],
)
def test_a_section_that_nothing_reads_is_reported(text: str, path: str, line: int, tmp_path: Path):
    assert (path, line, True) in [(where, at, HERE in message) for where, at, message in found(tmp_path, text)]


@pytest.mark.parametrize(
    ("text", "path", "home"),
    [
        ("singleuser: {gpus: {}}", "singleuser.gpus", "hub.config.GPUSpawner.gpus"),
        ("gpus: {a: {}}", "gpus", "hub.config.GPUSpawner.gpus"),
        ("hub: {presets: {}}", "hub.presets", "hub.config.GPUSpawner.presets"),
        ("hub: {config: {images: {}}}", "hub.config.images", "hub.config.GPUSpawner.images"),
        ("hub: {config: {language: de}}", "hub.config.language", "hub.config.GPUSpawner.language"),
        ("hub: {config: {spawner_class: x}}", "hub.config.spawner_class", "hub.config.JupyterHub.spawner_class"),
        ("hub: {config: {JupyterHub: {cpu: {}}}}", "hub.config.JupyterHub.cpu", "hub.config.GPUSpawner.cpu"),
    ],
)
def test_a_setting_beside_its_section_is_reported_with_its_home(text: str, path: str, home: str, tmp_path: Path):
    assert (path, 1, f"{HERE}; move it to {home}") in found(tmp_path, text)


def test_the_charts_own_keys_are_left_alone(tmp_path: Path):
    text = """
        singleuser: {cpu: {limit: 4}, memory: {limit: 4G}, image: {name: a, tag: b}}
        hub:
          extraConfig: {gpuspawner: "c.GPUSpawner.cpu = {}"}
          config: {DummyAuthenticator: {password: x}, DockerSpawner: {}, Authenticator: {admin_users: [a]}}
        custom: {GPUSpawner: {a: 1}}
    """
    assert found(tmp_path, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "hub: {extraFiles: {gpuspawner: {mountPath: /a}}}",
        "singleuser: {extraFiles: {gpuspawner: {mountPath: /a}}}",
        "hub: {services: {gpuspawner: {url: 'http://a'}}}",
        "hub: {loadRoles: {gpuspawner: {scopes: [admin-ui]}}}",
        "prePuller: {extraImages: {gpuspawner: {name: a, tag: b}}}",
        "singleuser: {extraEnv: {GPU_SPAWNER: {valueFrom: {}}}}",
        "hub: {config: {JupyterHub: {spawner_class: our.module.MyGPUSpawner}, MyGPUSpawner: {cpu_limit: 4}}}",
        "hub: {config: {DockerSpawner: {image: a}, OtherSpawner: 3, LDAPAuthenticator: {policy: a}}}",
        "hub: {config: {JupyterHub: {spawner_class: our.MyKubeSpawner}, MyKubeSpawner: {cpu_limit: 4}}}",
    ],
)
def test_what_admins_name_themselves_is_no_section_of_ours(text: str, tmp_path: Path):
    assert found(tmp_path, text) == []


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ("{JupyterHub: {spawner_class: our.MyGPUSpawner}, MyGPUSpawner: {gpu: 1, cpu: x}}", "MyGPUSpawner"),
        ("{JupyterHub: {spawner_class: our.Servers}, Servers: {cpu: x}}", "Servers"),
        ("{MySpawner: {cpu: x}}", "MySpawner"),
        ("{CustomSpawner: {cpu: x}}", "CustomSpawner"),
    ],
)
def test_settings_of_a_class_that_is_not_known_here_are_said_to_be_unchecked(config: str, path: str, tmp_path: Path):
    (told,) = find_unread_keys(written(tmp_path, f"hub: {{config: {config}}}"))
    assert (told.path, told.severity, told.code) == (f"hub.config.{path}", Severity.WARNING, "unchecked")
    assert told.message == (
        "is not checked (cpu): what a class of your own takes is known where it is installed. A subclass of GPUSpawner "
        "reads hub.config.GPUSpawner as well, which is checked"
    )


@pytest.mark.parametrize("spawner", ["gpuspawner.GPUSpwaner", "our.OtherSpawner", "GPUSpwaner"])
def test_a_misspelt_section_is_no_subclass(spawner: str, tmp_path: Path):
    text = f"hub: {{config: {{JupyterHub: {{spawner_class: {spawner}}}, GPUSpwaner: {{cpu: {{max: 4}}}}}}}}"
    assert [path for path, _, _ in found(tmp_path, text)] == ["hub.config.GPUSpwaner"]


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("Jupyterhub: {}", "Jupyterhub", "Did you mean 'JupyterHub'?"),
        ("kubespawner: {}", "kubespawner", "Did you mean 'KubeSpawner'?"),
        ("other: {}", "other", "these are called as their classes."),
        ("KubeSpawner: {cpu_limt: 1}", "KubeSpawner.cpu_limt", "Did you mean 'cpu_limit'?"),
        ("KubeSpawner: {cpu_limit: many}", "KubeSpawner.cpu_limit", "must be a float, not a text"),
        ("JupyterHub: {api_tokens: SECRET}", "JupyterHub.api_tokens", "not a text"),
        ("KubeSpawner: 3", "KubeSpawner", "must be a mapping, not a number"),
        ("JupyterHub: {spawner_clas: x}", "JupyterHub.spawner_clas", "Did you mean 'spawner_class'?"),
        (
            "JupyterHub: {spawner_class: ''}",
            "JupyterHub.spawner_class",
            "must be the name of a class, not an empty text",
        ),
        (
            "JupyterHub: {authenticator_class: 3}",
            "JupyterHub.authenticator_class",
            "must be the name of a class, not a number",
        ),
        ("GPUSpawner: {dry_run: maybe}", "GPUSpawner.dry_run", "must be a boolean, not 'maybe'"),
        ("GPUSpawner: {discover_gpus: null}", "GPUSpawner.discover_gpus", "must be a boolean, not null"),
        ("GPUSpawner: {mem_limit: 5 bananas}", "GPUSpawner.mem_limit", "not '5 bananas'"),
        ("GPUSpawner: {capacity_timeout: 0}", "GPUSpawner.capacity_timeout", "not 0"),
    ],
)
def test_what_jupyterhub_would_only_warn_of_is_an_error(text: str, path: str, message: str, tmp_path: Path):
    ((where, line, told),) = found(tmp_path, f"hub:\n  config:\n    {text}")
    assert (where, line, message in told) == (f"hub.config.{path}", 3, True), told


BYTES = "must be a number of bytes, or a text such as 4G (K, M, G or T, without an i)"


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("memory: {limit: 4Gi}", "memory.limit", f"{BYTES}, not '4Gi'"),
        ("memory: {guarantee: 512m}", "memory.guarantee", f"{BYTES}, not '512m'"),
        ("memory: {limit: lots, guarantee: 1G}", "memory.limit", f"{BYTES}, not 'lots'"),
        ("cpu: {limit: 500m}", "cpu.limit", "must be a float, not '500m'"),
        ("startTimeout: 5m", "startTimeout", "must be an int, not '5m'"),
        ("extraEnv: TOKEN=SECRET", "extraEnv", "must be a mapping, not a text"),
        ("nodeSelector: [gpu]", "nodeSelector", "must be a mapping, not a list"),
        ("defaultUrl: 5", "defaultUrl", "must be a unicode string, not a number"),
    ],
)
@pytest.mark.parametrize("root", ["", "jupyterhub."])
def test_what_the_chart_hands_on_and_no_trait_takes_is_an_error(
    root: str, text: str, path: str, message: str, tmp_path: Path
):
    inner = f"{{singleuser: {{{text}}}}}"
    assert found(tmp_path, f"jupyterhub: {inner}" if root else inner) == [(f"{root}singleuser.{path}", 1, message)]


def test_what_a_nearer_section_replaces_is_looked_at_there_alone(tmp_path: Path):
    text = "hub: {config: {KubeSpawner: {mem_limit: 8G}}}\nsingleuser: {memory: {limit: 4Gi}}"
    assert found(tmp_path, text) == []
    assert found(tmp_path, text.replace("8G", "8Gi")) == [
        ("hub.config.KubeSpawner.mem_limit", 1, f"{BYTES}, not '8Gi'")
    ]


def test_traits_of_kubespawner_may_be_set_in_our_section(tmp_path: Path):
    text = "mem_limit: 4G\ntolerations: [{key: a}]\ncpu: null\nimage: a/b:1\nprofile_list: []\n"
    assert found(tmp_path, section(text)) == []


def test_settings_in_kubespawners_section_are_read_and_no_error(tmp_path: Path):
    assert found(tmp_path, "hub: {config: {KubeSpawner: {gpus: {}}}}") == []


def test_no_module_is_imported_because_a_file_names_it(tmp_path: Path):
    (tmp_path / "module_of_a_values_file.py").write_text("raise SystemExit")
    text = "hub: {config: {JupyterHub: {authenticator_class: module_of_a_values_file.Class}}}"
    before = [*sys.path]
    sys.path.insert(0, str(tmp_path))
    try:
        assert found(tmp_path, text) == []
    finally:
        sys.path[:] = before
    assert "module_of_a_values_file" not in sys.modules
