"""Broken settings end the hub when it starts, with the path and the reason of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from traitlets.config import Config

import gpuspawner
from gpuspawner._resources import data_dir
from gpuspawner.core.errors import SettingsError
from gpuspawner.hub.config.offer import OfferFactory
from gpuspawner.hub.config.settings_files import SettingsFilesCache
from gpuspawner.hub.config.traits import GPUSpawnerTraits
from gpuspawner.hub.pod.override_checks import parse_settings
from gpuspawner.hub.spawner import GPUSpawner
from gpuspawner.hub.startup import check_config, configure

BROKEN = {"gpus": {"a100": {"max_cnt": 3}}}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[JupyterHub]:
    JupyterHub.clear_instance()
    yield JupyterHub.instance(log_level=50, cookie_secret_file=str(tmp_path / "secret"))
    JupyterHub.clear_instance()


def fields(**sections: Any) -> list[str]:
    with pytest.raises(SettingsError) as wrong:
        check_config(Config(sections))
    return [problem.field for problem in wrong.value.problems]


def test_right_settings_pass():
    check_config(Config({"GPUSpawner": {"gpus": None, "cpu": {"max": 4}, "start_timeout": 5}}))


def test_every_wrong_place_is_reported():
    assert fields(GPUSpawner={**BROKEN, "memory": {"max": "lots"}, "gpu": {}}) == [
        "gpu",
        "memory.max",
        "gpus.a100.max_cnt",
        "gpus.a100.resource",
    ]


def test_an_unknown_key_is_reported_with_the_nearest_one():
    with pytest.raises(SettingsError, match="Did you mean gpus"):
        check_config(Config({"GPUSpawner": {"gpu": {}}}))


def test_an_unknown_key_that_is_like_no_other_is_reported_with_all_settings():
    with pytest.raises(SettingsError, match="images, cpu, memory"):
        check_config(Config({"GPUSpawner": {"zzzzzz": {}}}))


@pytest.mark.parametrize(
    ("names", "field"),
    [
        ("token", "extra_options"),
        ([3], "extra_options"),
        (["token", "gpu"], "extra_options.1"),
        (["v"], "extra_options.0"),
        (["profile"], "extra_options.0"),
    ],
    ids=repr,
)
def test_a_sites_own_options_must_not_be_gpuspawners(names: Any, field: str):
    check_config(Config({"GPUSpawner": {"extra_options": ["token", "image"]}}))
    with pytest.raises(SettingsError) as caught:
        check_config(Config({"GPUSpawner": {"extra_options": names}}))
    assert [problem.field for problem in caught.value.problems] == [field]


def test_a_language_that_is_not_there_is_reported_with_those_that_are():
    check_config(Config({"GPUSpawner": {"language": "zh-CN"}}))
    with pytest.raises(SettingsError, match=r"language: there is no 'xx'\. The languages are en, de, zh-CN"):
        check_config(Config({"GPUSpawner": {"language": "xx"}}))


def test_settings_in_the_section_of_a_base_class_count():
    assert fields(KubeSpawner=BROKEN) == ["gpus.a100.max_cnt", "gpus.a100.resource"]


def test_unknown_keys_of_other_sections_are_theirs():
    check_config(Config({"KubeSpawner": {"gpu": {}}}))


def test_values_that_python_configuration_updates_are_checked():
    config = Config()
    config.GPUSpawner.gpus.update(BROKEN["gpus"])
    with pytest.raises(SettingsError, match="max_cnt"):
        check_config(config)


def _load(hub: JupyterHub, folder: Path, text: str) -> None:
    """Do what JupyterHub does when it starts: read its configuration, then its secret."""
    path = folder / "jupyterhub_config.py"
    path.write_text(text)
    hub.load_config_file(str(path))
    hub.init_secrets()


@pytest.mark.parametrize(
    "spawner",
    [
        "c.JupyterHub.spawner_class = 'gpu'",
        "c.JupyterHub.spawner_class = 'gpuspawner.GPUSpawner'",
        "import gpuspawner; c.JupyterHub.spawner_class = gpuspawner.GPUSpawner",
        "from gpuspawner import GPUSpawner\nclass Own(GPUSpawner): pass\nc.JupyterHub.spawner_class = Own",
    ],
)
def test_a_hub_with_wrong_settings_ends(
    hub: JupyterHub, tmp_path: Path, caplog: pytest.LogCaptureFixture, spawner: str
):
    hub.log.propagate = True
    with pytest.raises(SystemExit) as ended:
        _load(hub, tmp_path, f"{spawner}\nc.GPUSpawner.gpus = {BROKEN['gpus']}")
    assert ended.value.code == 1
    told = [record.message for record in caplog.records if record.levelname == "CRITICAL"]
    assert told[0].startswith("hub.config.GPUSpawner.gpus.a100.max_cnt: ")


def test_a_hub_whose_image_overrides_what_kubespawner_rejects_ends(
    hub: JupyterHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    hub.log.propagate = True
    images = {"small": {"image": "a:1", "kubespawner_override": {"start_timeout": "soon"}}}
    with pytest.raises(SystemExit):
        _load(hub, tmp_path, f"c.JupyterHub.spawner_class = 'gpu'\nc.GPUSpawner.images = {images}")
    told = [record.message for record in caplog.records if record.levelname == "CRITICAL"]
    path = "hub.config.GPUSpawner.images.small.kubespawner_override.start_timeout"
    assert told[0].startswith(f"{path}: must be an int, not a text")


def test_a_hub_with_right_settings_goes_on(hub: JupyterHub, tmp_path: Path):
    _load(hub, tmp_path, "c.JupyterHub.spawner_class = 'gpu'\nc.GPUSpawner.cpu = {'max': 4}")
    assert hub.spawner_class is gpuspawner.GPUSpawner


OWN_PAGES = str(data_dir("templates") / "hub")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("", [OWN_PAGES, "{hubs}"]),
        ("c.JupyterHub.template_paths = ['/site/pages']", ["/site/pages", OWN_PAGES]),
        ("c.JupyterHub.template_paths = ['/site/pages', '{hubs}', '/x']", ["/site/pages", OWN_PAGES, "{hubs}", "/x"]),
        ("c.JupyterHub.cookie_secret = bytes(32)\nc.JupyterHub.template_paths = ['/a']", ["/a", OWN_PAGES]),
    ],
    ids=["none", "an admin's", "the hub's among them", "with a secret"],
)
def test_jupyterhub_looks_for_our_pages_after_the_admins_and_before_its_own(
    hub: JupyterHub, tmp_path: Path, config: str, expected: list[str]
):
    hubs = str(Path(hub.data_files_path) / "templates")
    _load(hub, tmp_path, f"c.JupyterHub.spawner_class = 'gpu'\n{config}".replace("{hubs}", hubs))
    hub.session_factory = object()
    assert hub.template_paths == [each.replace("{hubs}", hubs) for each in expected]


def test_configure_sets_spawner_and_settings():
    config = Config()
    configure(config, {"cpu": {"max": 4}})
    assert (config.JupyterHub.spawner_class, config.GPUSpawner.cpu) == ("gpuspawner.GPUSpawner", {"max": 4})


@pytest.mark.parametrize("text", ["cpu: {max: 4}", "hub: {config: {GPUSpawner: {cpu: {max: 4}}}}"])
def test_configure_reads_what_settings_files_may_hold(tmp_path: Path, text: str):
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text("capacity_timeout: 3")
    config = Config()
    configure(config, tmp_path)
    assert config.GPUSpawner == {"cpu": {"max": 4}, "capacity_timeout": 3}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpus: {a100: {max_cnt: 3}}", "gpus.a100.max_cnt: there is no such key. Did you mean 'max_count'? ({})"),
        ("cpu: {max: 4}\ngpus: {}\ncpu: {max: 5}", "cpu: is there twice, in lines 1 and 3 ({})"),
        ("a: [", "{} is no YAML: "),
        (b"a: \xff", "{} is no YAML: "),
        ("- 1", "{} must hold a mapping"),
        ("gpu: {}", "gpu: there is no such setting. Did you mean gpus? ({})"),
        (None, "{} cannot be read: No such file or directory"),
    ],
)
def test_configure_refuses_a_wrong_file_by_its_name(tmp_path: Path, text: str | bytes | None, expected: str):
    path = tmp_path / "gpuspawner.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as wrong:
        configure(Config(), str(path))
    assert str(wrong.value).startswith(expected.format(path))


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        ("{cpu: {max: 4}}", "cpu: {max: -1}", "cpu.max: must be a number of CPUs, such as 0.5 or 4, not -1 ({upper})"),
        ("{cpu: {max: 4}}", "cpu: {max: 1, max: 2}", "cpu.max: is there twice, in lines 1 and 1 ({upper})"),
        ("{cpu: {max: -1}}", "cpu: {min: 1}", "cpu.max: must be a number of CPUs, such as 0.5 or 4, not -1 ({lower})"),
        ("{cpus: {max: 4}}", "cpu: {max: 4}", "cpus: there is no such setting. Did you mean cpu? ({lower})"),
    ],
)
def test_one_file_is_named_where_a_configured_one_has_others_put_over_it(
    tmp_path: Path, lower: str, upper: str, expected: str
):
    base, above = tmp_path / "base.yaml", tmp_path / "over.yaml"
    base.write_text(f"{lower[:-1]}, settings_files: [{above}]}}")
    above.write_text(upper)
    with pytest.raises(SettingsError) as wrong:
        configure(Config(), base)
    assert str(wrong.value) == expected.format(lower=base, upper=above)


def test_configure_alone_only_sets_the_spawner(tmp_path: Path):
    (tmp_path / "empty.yaml").write_text("")
    for nothing in ((), ({},), (tmp_path / "empty.yaml",)):
        config = Config()
        configure(config, *nothing)
        assert list(config) == ["JupyterHub"]


@pytest.mark.parametrize(
    ("neither", "shown"),
    [
        (None, "null"),
        ("", "''"),
        (5, "5"),
        (["/etc/a.yaml"], "a list"),
        (b"/etc/a.yaml", "an object"),
        ([("cpu", {"max": 4})], "a list"),
    ],
)
def test_configure_refuses_what_is_neither_a_path_nor_a_mapping(neither: Any, shown: str):
    config = Config()
    with pytest.raises(SettingsError) as wrong:
        configure(config, neither)
    assert (str(wrong.value), dict(config)) == (
        "configure() takes the path of a YAML file or of a folder of them, or a mapping of settings, not"
        f" {shown}. For several paths there is c.GPUSpawner.settings_files.",
        {},
    )


def test_files_count_when_the_hub_starts_and_the_wrong_one_is_named(tmp_path: Path):
    path = tmp_path / "a.yaml"
    section: dict[str, Any] = {"settings_files": [str(tmp_path)], "cpu": {"max": 4}}
    path.write_text("cpu: {default: 3, step: 1, min: 1}")
    check_config(Config({"GPUSpawner": section}))
    path.write_text("cpu: {default: 5, step: 1, min: 1}")
    with pytest.raises(SettingsError, match=r"cpu\.default: must be 1 to 4, not 5 \(.*/a\.yaml\)"):
        check_config(Config({"GPUSpawner": section}))
    check_config(Config({"GPUSpawner": section}), with_files=False)
    section["settings_files"] = str(path)
    assert fields(GPUSpawner=section) == ["settings_files"]
    with pytest.raises(SettingsError, match="must be a list of paths"):
        check_config(Config({"GPUSpawner": section}), with_files=False)


def test_a_hub_whose_file_is_not_there_ends(hub: JupyterHub, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    hub.log.propagate = True
    text = f"c.JupyterHub.spawner_class = 'gpu'\nc.GPUSpawner.settings_files = ['{tmp_path}/none.yaml']"
    with pytest.raises(SystemExit):
        _load(hub, tmp_path, text)
    told = next(record.message for record in caplog.records if record.levelname == "CRITICAL")
    assert told.startswith(f"hub.config.GPUSpawner.settings_files: {tmp_path}/none.yaml cannot be read")


def test_files_that_were_right_when_the_hub_started_are_remembered(
    hub: JupyterHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(GPUSpawner, "settings_files_cache", followed := SettingsFilesCache())
    (tmp_path / "mount").mkdir()
    path = tmp_path / "mount" / "a.yaml"
    path.write_text("gpus: {t4: {resource: nvidia.com/gpu}}")
    text = f"c.JupyterHub.spawner_class = 'gpu'\nc.GPUSpawner.settings_files = ['{path.parent}']"
    _load(hub, tmp_path, f"{text}\nc.GPUSpawner.images = {{'lab': {{'image': 'lab:1'}}}}")
    path.write_text("gpus: [")
    (settings,) = followed
    as_in_a_spawner = GPUSpawnerTraits(config=Config({"GPUSpawnerTraits": hub.config.GPUSpawner})).collect_settings()
    again = GPUSpawner.settings_files_cache.get_settings(
        [str(path.parent)], as_in_a_spawner, parse=OfferFactory(parse_settings).parse, log=hub.log
    )
    assert again is settings
    configured = settings.parse(as_in_a_spawner).configured
    assert (list(configured.gpus), list(configured.images)) == (["t4"], ["lab"])
