from __future__ import annotations

from pathlib import Path

import pytest
from kubespawner import KubeSpawner
from traitlets import Dict

from gpuspawner.cli.main import main

OURS = "hub: {config: {JupyterHub: {spawner_class: gpuspawner.GPUSpawner}}}\n"
OPTION = "- {display_name: A, profile_options: {image: %s}}"


def check(folder: Path, profiles: str, *, hub: str = OURS, key: str = "profileList") -> int:
    """Run the command for a profile list, in YAML."""
    lines = "".join(f"    {line}\n" for line in profiles.splitlines())
    (folder / "values.yaml").write_text(f"{hub}singleuser:\n  {key}:\n{lines}")
    return main(["check", str(folder / "values.yaml")])


def read_mistakes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of the findings, without the name of the file and the positions."""
    *lines, _ = capsys.readouterr().out.splitlines()
    return [line.partition(": ")[2].replace("singleuser.profileList.", "") for line in lines]


def test_a_profile_list_without_a_mistake_is_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    profiles = """\
- {display_name: A, default: true, kubespawner_override: {mem_limit: 4G, cpu_limit: null, image_spec: a}}
- display_name: B
  slug: b
  profile_options:
    image:
      display_name: Image
      choices:
        one: {display_name: One, default: true, kubespawner_override: {environment: {A: "1"}}}
        two: {display_name: Two}
      unlisted_choice: {enabled: true, validation_regex: "^.+$", kubespawner_override: {mem_limit: "{value}"}}
    folder:
      display_name: Folder
      choices: null
      unlisted_choice: {enabled: true, kubespawner_override: {working_dir: "{value}"}}"""
    assert (check(tmp_path, profiles), capsys.readouterr().out) == (0, "1 file: no problems\n")


@pytest.mark.parametrize(
    ("profiles", "mistake"),
    [
        pytest.param("- {slug: a}", "error: 0: has no display_name", id="no name"),
        pytest.param("- {display_name: 3}", "error: 0.display_name: must be a text, not a number", id="a number"),
        pytest.param(
            "- {display_name: A, kubespawner_override: null}",
            "error: 0.kubespawner_override: must be a mapping, not null",
            id="a null",
        ),
        pytest.param(
            "- {display_name: A, kubespawner_override: {mem_limt: 4G}}",
            "warning: 0.kubespawner_override.mem_limt: KubeSpawner has no such trait. Did you mean 'mem_limit'?",
            id="an unknown trait",
        ),
        pytest.param(
            "- {display_name: A, kubespawner_override: {envs: {A: b}}}",
            "error: 0.kubespawner_override.envs: KubeSpawner has no such trait.",
            id="an unknown trait with a mapping",
        ),
        pytest.param(
            "- {display_name: A, kubespawner_override: {start_timeout: soon}}",
            "error: 0.kubespawner_override.start_timeout: must be an int, not a text",
            id="a wrong value",
        ),
        pytest.param(
            "- {display_name: A, profile_options: []}",
            "error: 0.profile_options: must be a mapping, not a list",
            id="a list of options",
        ),
        pytest.param(
            OPTION % "{display_name: I, choices: {a: b}}",
            "error: 0.profile_options.image.choices.a: must be a mapping, not a text",
            id="a text as a choice",
        ),
        pytest.param(
            OPTION % "{display_name: I, choices: {a: {}}}",
            "error: 0.profile_options.image.choices.a: has no display_name",
            id="a choice without a name",
        ),
        pytest.param(
            OPTION % "{choices: {a: {display_name: A}}}",
            "error: 0.profile_options.image: has no display_name",
            id="an option without a name",
        ),
        pytest.param(
            OPTION % "{display_name: I}",
            "error: 0.profile_options.image: has neither choices nor an enabled unlisted_choice: no server of the"
            " profile starts",
            id="nothing to choose",
        ),
        pytest.param(
            OPTION
            % "{display_name: I, choices: {b: {display_name: B, default: true}, a: {display_name: A, default: 1}}}",
            "warning: 0.profile_options.image.choices.b.default: has no effect: 'a' is the default already",
            id="two default choices, in Helm's order",
        ),
        pytest.param(
            OPTION % "{display_name: I, unlisted_choice: true}",
            "error: 0.profile_options.image.unlisted_choice: must be a mapping, not a boolean",
            id="a text field that is no mapping",
        ),
        pytest.param(
            OPTION % "{display_name: I, unlisted_choice: {enabled: true}}",
            "warning: 0.profile_options.image.unlisted_choice: has no kubespawner_override: what the user writes has no"
            " effect",
            id="a text field without effect",
        ),
        pytest.param(
            OPTION % '{display_name: I, unlisted_choice: {enabled: "no", kubespawner_override: {image: "{value}"}}}',
            "error: 0.profile_options.image.unlisted_choice.enabled: must be true or false, not a text",
            id="a text that is true",
        ),
        pytest.param(
            OPTION % "{display_name: I, unlisted_choice: "
            '{enabled: true, validation_regex: "(", kubespawner_override: {uid: 1}}}',
            "error: 0.profile_options.image.unlisted_choice.validation_regex: is no regular expression: missing ),"
            " unterminated subpattern at position 0",
            id="a wrong pattern",
        ),
        pytest.param(
            "- {display_name: Big}\n- {display_name: big}",
            "warning: 1.display_name: gives the slug 'big' of profile 0: KubeSpawner always starts that one",
            id="one slug twice",
        ),
        pytest.param(
            "- {display_name: A, default: true}\n- {display_name: B, default: true}",
            "warning: 1.default: has no effect: '0' is the default already",
            id="two default profiles",
        ),
    ],
)
def test_a_mistake_is_named_by_its_path(
    profiles: str, mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    status = check(tmp_path, profiles)
    assert (status, read_mistakes(capsys)) == (int(mistake.startswith("error")), [mistake])


def test_a_mistake_has_a_line_and_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    check(tmp_path, "- display_name: A\n  kubespawner_override:\n    mem_limit: much")
    line, _ = capsys.readouterr().out.splitlines()
    assert line.startswith(
        f"{tmp_path}/values.yaml:6:20: error: singleuser.profileList.0.kubespawner_override.mem_limit: "
    )


@pytest.mark.skipif(
    not any(isinstance(kind, Dict) for kind in KubeSpawner.class_traits()["profile_list"].trait_types),
    reason="KubeSpawner 7.0 takes no mapping of profiles",
)
def test_the_list_may_be_a_trait_and_a_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    hub = "hub: {config: {JupyterHub: {spawner_class: gpuspawner.GPUSpawner}, KubeSpawner: {profile_list: {a: {}}}}}\n"
    check(tmp_path, "{}", hub=hub, key="custom")
    assert read_mistakes(capsys) == ["error: hub.config.KubeSpawner.profile_list.a: has no display_name"]


def test_a_class_of_the_hub_may_have_more_traits(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    hub = "hub: {config: {JupyterHub: {spawner_class: mysite.CourseSpawner}}}\n"
    check(tmp_path, "- {display_name: A, kubespawner_override: {course: {a: b}}}", hub=hub)
    assert "warning: 0.kubespawner_override.course: KubeSpawner has no such trait." in read_mistakes(capsys)
