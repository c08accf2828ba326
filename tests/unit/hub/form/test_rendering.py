from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import jinja2
import pytest
from bs4 import BeautifulSoup, Tag

from gpuspawner._resources import data_dir
from gpuspawner.core.form.views import FactView, FormView, GPUTypeState, VendorView
from gpuspawner.core.warnings.wording import WarningsView, WarningView
from gpuspawner.hub.form.rendering import render
from tests.unit.hub.views import (
    BLOCKED,
    CUSTOM,
    ERRORS,
    HOSTILE,
    LIMITED,
    MISFIT,
    MORE,
    NEVER,
    ONLY_PROFILES,
    PROFILES,
    T4,
    VERDICT,
    VIEW,
    WRONG,
    hostile_view,
)
from tests.unit.islands import faults, island_of


def page(view: FormView, template_dirs: tuple[str, ...] = ()) -> BeautifulSoup:
    return BeautifulSoup(render(view, template_dirs=template_dirs), "html.parser")


def one(soup: BeautifulSoup | Tag, selector: str) -> Tag:
    found = soup.select(selector)
    assert len(found) == 1, f"{len(found)} elements match {selector}"
    return found[0]


def row(soup: BeautifulSoup, name: str, number: int) -> Tag:
    """Return a choice with everything that is said about it, counted from 1; GPU type 0 is none."""
    radios = soup.select(f"input[type=radio][name={name}]")
    found = radios[number if name == "gpu" else number - 1].find_parent("label")
    assert found is not None
    return found


FLAGS = WarningsView(summary="GPUs of 2 nodes are not offered", flags=(WarningView("a, b", "No GPU is offered."),))
RARER = ("run_time", "shared_memory", "priority")
EMPTY = replace(VIEW, cpu=None, memory=None, vendors=(), presets=())
STATES = {
    "first visit": VIEW,
    "nothing but an image": EMPTY,
    "errors": replace(VIEW, errors={**ERRORS, "colour": "There is no such field.", "": "Not now."}),
    "notices": replace(VIEW, notices=dict(ERRORS), capacity_notice="Capacity is unknown."),
    "verdict": replace(VIEW, verdict=VERDICT, vendors=(VendorView(slug="x", display_name="X", types=(NEVER, T4)),)),
    "old": replace(VIEW, age_s=130.0, age_text="as of 2 min ago"),
    "admin": replace(VIEW, flags=FLAGS),
    "custom image": replace(VIEW, custom_image=CUSTOM, errors={"custom_image": "No such image."}),
    "more": MORE,
    "more, with an error": WRONG,
    "limits": LIMITED,
    "blocked": BLOCKED,
    "profiles": PROFILES,
    "only profiles": ONLY_PROFILES,
    "no profile at all": replace(ONLY_PROFILES, profiles=()),
    "profiles that cannot be loaded": replace(ONLY_PROFILES, profiles=(), profiles_problem="Ask an admin."),
    "hostile": hostile_view(),
}
every_state = pytest.mark.parametrize("view", STATES.values(), ids=STATES)


@every_state
def test_the_form_sends_only_the_fields_of_the_contract(view: FormView):
    names = {str(control["name"]) for control in page(view).select("[name]")}
    in_profiles = {name for name in names if name.startswith("profile-option-") or name == HOSTILE}
    fields = {"image", "custom_image", "cpu", "memory", "gpu", "gpu_count", *RARER, "start_preset", "profile"}
    assert names - in_profiles <= fields


@every_state
def test_ids_are_unique_and_carry_the_prefix(view: FormView):
    ids = [str(element["id"]) for element in page(view).select("[id]")]
    assert sorted(set(ids)) == sorted(ids)
    assert [each for each in ids if not each.startswith("gpuspawner-")] == []


@every_state
def test_what_names_and_describes_a_control_is_there(view: FormView):
    soup = page(view)
    ids = {str(element["id"]) for element in soup.select("[id]")}
    attributes = ("aria-labelledby", "aria-describedby", "for")
    referred = {
        each for element in soup.find_all(True) for name in attributes for each in str(element.get(name, "")).split()
    }
    assert referred <= ids


@every_state
def test_every_field_has_a_label(view: FormView):
    soup = page(view)
    labelled = {str(label["for"]) for label in soup.select("label[for]")}
    bare = [field for field in soup.select("input") if not field.find_parent("label") and field["id"] not in labelled]
    assert bare == []


@every_state
def test_nothing_runs_or_loads_but_what_the_form_brings_with_it(view: FormView):
    soup = page(view)
    assert [script.get("type") for script in soup.select("script")] == ["application/json", "module"]
    assert soup.select("img, iframe, object, embed, link, base, form, [src], [style], [srcdoc]") == []
    assert [tag for tag in soup.find_all(True) for name in tag.attrs if name.startswith("on")] == []
    assert [link["href"] for link in soup.select("[href]") if not str(link["href"]).startswith("#gpuspawner-")] == []


@every_state
def test_the_island_holds_the_view(view: FormView):
    assert json.loads(one(page(view), "#gpuspawner-data").text) == island_of(view)


@pytest.mark.parametrize("name", sorted(STATES.keys() - {"hostile"}))  # whose outcomes are none that there are
def test_the_island_is_what_the_schema_says(name: str):
    assert faults(island_of(STATES[name])) == []


def test_a_form_can_be_sent_whatever_text_is_in_it():
    # Half a pair of surrogates, which JSON can hold and UTF-8 cannot.
    sent = render(replace(VIEW, notices={"cpu": "Your last choice (\ud800)"})).encode()
    assert one(BeautifulSoup(sent, "html.parser"), "#gpuspawner-cpu-notice").get_text() == "Your last choice (?)"


def test_hostile_text_is_shown_as_it_is():
    soup = page(hostile_view())
    assert one(row(soup, "image", 1), "b").text == HOSTILE
    assert one(row(soup, "gpu", 1), "b").text == HOSTILE
    assert one(soup, "#gpuspawner-cpu")["value"] == HOSTILE
    assert [radio["value"] for radio in soup.select("input[name=image]")] == [HOSTILE, ""]
    assert one(soup, "#gpuspawner-custom_image")["value"] == HOSTILE
    assert one(soup, "#gpuspawner-cpu-error").get_text().strip().endswith(HOSTILE)
    assert one(soup, "#gpuspawner-admin li").text == f"{HOSTILE}: {HOSTILE}"


def test_each_choice_is_a_radio_button_and_the_value_is_checked():
    soup = page(replace(VIEW, values={**VIEW.values, "image": "plain", "gpu": "t4"}))
    assert [radio["value"] for radio in soup.select("input[type=radio][name=image]")] == ["pytorch", "plain"]
    assert [radio["value"] for radio in soup.select("input[type=radio][name=gpu]")] == ["", "t4", "mi210"]
    assert [radio["value"] for radio in soup.select("input[checked]")] == ["t4", "plain"]
    gone = page(replace(VIEW, values={**VIEW.values, "image": "gone"}))
    assert gone.select("input[name=image][checked]") == []


def test_another_image_is_the_last_card_with_a_field_for_its_reference():
    values = {**VIEW.values, "image": "", "custom_image": "quay.io/x:1"}
    soup = page(replace(VIEW, custom_image=CUSTOM, values=values))
    assert [radio["value"] for radio in soup.select("input[name=image]")] == ["pytorch", "plain", ""]
    assert [radio["value"] for radio in soup.select("input[name=image][checked]")] == [""]
    assert one(row(soup, "image", 3), "b").text == "Custom image"
    field = one(soup, "input[name=custom_image]")
    assert (field["value"], field.has_attr("required"), field.has_attr("disabled")) == ("quay.io/x:1", False, False)
    assert one(soup, "#gpuspawner-custom_image-help").text == "Written as registry/name:tag."


def test_the_error_of_a_reference_stands_at_its_field_and_leads_there():
    soup = page(STATES["custom image"])
    assert one(soup, "#gpuspawner-custom_image-error").text == "No such image."
    assert one(soup, "#gpuspawner-errors a")["href"] == "#gpuspawner-custom_image"
    field = one(soup, "input[name=custom_image]")
    assert (field["aria-invalid"], "gpuspawner-custom_image-error" in field["aria-describedby"]) == ("true", True)
    assert soup.select("input[name=image][aria-invalid]") == []


def test_what_does_not_apply_is_not_shown():
    soup = page(VIEW)
    nowhere = ("input[name=custom_image]", "input[name=image][value='']", "#gpuspawner-admin", "#gpuspawner-errors")
    assert soup.select(", ".join((*nowhere, "[aria-invalid]", "[data-old]", "#gpuspawner-as-loaded"))) == []
    for_script = soup.select("#gpuspawner-age, #gpuspawner-summary, [data-step]")
    assert (len(for_script) > 2, all(each.has_attr("hidden") for each in for_script)) == (True, True)


def test_bounds_are_shown_before_they_are_hit():
    soup = page(VIEW)
    assert " ".join(one(soup, "#gpuspawner-cpu-help").text.split()) == "0.5 to 32 cores, in steps of 0.5."
    assert one(soup, "#gpuspawner-memory-help").text.split()[:4] == ["1", "to", "256", "GiB,"]
    field = one(soup, "#gpuspawner-gpu_count")
    # A browser's own message about a number would look like none of the form's.
    assert (field["type"], field["inputmode"]) == ("text", "numeric")


def test_a_gpu_type_shows_memory_unit_capacity_and_note():
    soup = page(VIEW)
    about = row(soup, "gpu", 1)
    assert one(about, "span > small").text.split() == ["15", "GiB", "full", "GPU", "up", "to", "4"]
    assert one(about, ".gs-free").text == "3 of 8 free"
    assert one(about, ".gs-details").text == "1 of 8 broken,\nup to 2 at once"
    assert one(about, ".gs-note").text == "Simulated."


def test_a_gpu_type_says_what_else_it_is_and_what_to_know_of_it():
    odd = replace(T4, badges=("NVLink", "spot"), description="Fast.", caution="It may go.")
    soup = page(replace(VIEW, vendors=(VendorView(slug="x", display_name="X", types=(odd, T4)),)))
    facts = [[fact.text for fact in each.select("span")] for each in soup.select(".gs-vendor span > small")]
    assert facts == [["15 GiB", "full GPU", "NVLink", "spot"], ["15 GiB", "full GPU"]]
    text = one(row(soup, "gpu", 1), "label > small").text
    assert " ".join(text.split()) == "Fast. It may go. Simulated."


def test_the_bar_stands_only_where_it_is_known_what_is_free():
    soup = page(VIEW)
    assert [len(row(soup, "gpu", number).select("svg")) for number in (1, 2)] == [1, 0]
    assert [bar["width"] for bar in row(soup, "gpu", 1).select("rect")] == ["37.5%", "12.5%"]
    none_broken = VendorView(slug="x", display_name="X", types=(replace(T4, healthy=8), replace(T4, healthy=None)))
    soup = page(replace(VIEW, vendors=(none_broken,)))
    assert [bar["width"] for bar in soup.select("rect")] == ["37.5%", "37.5%"]


def test_a_type_that_can_never_start_says_why_and_is_disabled_unless_it_is_picked_or_counts_are_old():
    soup = page(STATES["verdict"])
    assert [radio["value"] for radio in soup.select("input[name=gpu][disabled]")] == ["h100"]
    assert one(row(soup, "gpu", 1), ".gs-reason").text == "There is none."
    for change in ({"age_text": "as of 5 min ago"}, {"values": {**VIEW.values, "gpu": "h100"}}):
        assert page(replace(STATES["verdict"], **change)).select("input[name=gpu][disabled]") == []


def test_the_verdict_is_announced_and_shown_without_the_script():
    soup = page(STATES["verdict"])
    verdict = one(soup, "#gpuspawner-verdict")
    assert (verdict["role"], verdict["aria-live"], verdict["data-outcome"]) == ("status", "polite", "waits")
    assert verdict.text.strip() == "Will wait: none is free."
    assert [item.text for item in soup.select("#gpuspawner-alternatives li")] == ["1 × Tesla T4"]
    assert not one(soup, "#gpuspawner-summary").has_attr("hidden")
    assert one(soup, "#gpuspawner-as-loaded").text == "When this page was loaded:"


def test_old_counts_are_marked_with_their_age():
    soup = page(STATES["old"])
    assert one(soup, "#gpuspawner-age").text == "These counts are as of 2 min ago."
    assert one(soup, "#gpuspawner-form")["data-old"] == "true"


def test_old_counts_are_no_reason_except_where_nothing_can_ever_start():
    types = (replace(T4, state=GPUTypeState.BUSY, reason="None is free right now."), NEVER)
    soup = page(replace(STATES["old"], vendors=(VendorView(slug="x", display_name="X", types=types),)))
    assert [reason.text for reason in soup.select(".gs-vendor .gs-reason")] == ["There is none."]
    assert one(row(soup, "gpu", 2), ".gs-reason").text == "There is none."


def test_a_type_says_nothing_of_images_which_come_after_it():
    none = replace(VIEW.images[0], misfits=(replace(MISFIT, gpus=("t4", "mi210")),))
    soup = page(replace(VIEW, images=(none, VIEW.images[1]), values={**VIEW.values, "image": "pytorch"}))
    assert (soup.select("[data-misfit]"), soup.select(".gs-vendor .gs-reason")) == ([], [])
    assert [each["value"] for each in soup.select("input[name=gpu][disabled]")] == []


def test_suggestions_are_shown_without_a_script_as_well():
    soup = page(replace(VIEW, suggestion="Suggested for 1 × T4: 4 CPUs"))
    assert not one(soup, "#gpuspawner-suggestion").has_attr("hidden")
    assert one(soup, "#gpuspawner-suggested").text == "Suggested for 1 × T4: 4 CPUs"
    assert one(soup, "#gpuspawner-suggest").has_attr("hidden")
    assert one(page(VIEW), "#gpuspawner-suggestion").has_attr("hidden")


def test_the_preset_that_the_fields_hold_is_marked_also_without_a_script():
    first, *others = VIEW.presets
    soup = page(replace(VIEW, presets=(replace(first, is_picked=True), *others)))
    assert [each["value"] for each in soup.select(".gs-preset[aria-current=true]")] == [first.slug]


def test_admins_see_problems_in_a_closed_fold_out():
    soup = page(STATES["admin"])
    details = one(soup, "details#gpuspawner-admin")
    assert not details.has_attr("open")
    assert one(details, "summary").text == "For admins: GPUs of 2 nodes are not offered"
    assert [item.text for item in details.select("li")] == ["a, b: No GPU is offered."]


def test_without_bounds_and_gpus_their_fields_are_not_there():
    soup = page(EMPTY)
    assert {str(control["name"]) for control in soup.select("[name]")} == {"image", "gpu"}
    assert one(row(soup, "gpu", 0), "small").text.strip() == "No GPU is offered at the moment."


def test_a_vendor_filter_needs_two_vendors_and_the_script():
    assert one(page(VIEW), ".gs-find[hidden] .gs-filter").select("button") != []
    assert page(replace(VIEW, vendors=VIEW.vendors[:1])).select(".gs-find, .gs-filter") == []


def test_a_preset_says_whether_it_can_start_as_far_as_known():
    line = one(page(VIEW), ".gs-preset .gs-outlook")
    assert (line["data-outcome"], line.text) == ("now", "Starts now: room for 3")
    unknown = replace(VIEW, presets=(replace(VIEW.presets[0], outlook=None),))
    line = one(page(unknown), ".gs-preset .gs-outlook")
    assert (line.has_attr("data-outcome"), line.text) == (False, "")


def test_a_preset_starts_without_the_script_but_not_by_enter_in_a_field():
    button = one(page(VIEW), "button[name=start_preset]")
    assert (button["type"], button["value"], button.has_attr("formnovalidate")) == ("submit", "train", True)
    assert page(VIEW).select("button[type=submit]")[0].get("name") is None


def test_an_error_stands_at_its_field_and_in_the_summary_with_a_link():
    soup = page(STATES["errors"])
    for name, text in ERRORS.items():
        assert text in one(soup, f"#gpuspawner-{name}-error").text
        fields = soup.select(f"input[name={name}]")
        assert {field.get("aria-invalid") for field in fields} == {"true"}
        assert all(f"gpuspawner-{name}-error" in str(field["aria-describedby"]).split() for field in fields)
    links = one(soup, "#gpuspawner-errors").select("a")
    assert sorted(
        link.text.removeprefix("CPU: ").removeprefix("Memory: ").removeprefix("Number of GPUs: ") for link in links
    ) == sorted(ERRORS.values())
    assert all(one(soup, str(link["href"])).name == "input" for link in links)
    items = [item.text.strip() for item in soup.select("#gpuspawner-errors li")]
    assert items[-2:] == ["There is no such field.", "Not now."]  # of no field


def test_an_error_of_a_field_that_is_not_shown_is_not_lost():
    view = replace(EMPTY, errors={"cpu": "CPU cannot be chosen here."})
    assert "CPU cannot be chosen here." in one(page(view), "#gpuspawner-errors").text


def test_a_notice_stands_at_its_field_once():
    soup = page(replace(VIEW, notices={"image": "It is gone.", "": "Read anew."}))
    assert one(soup, "#gpuspawner-image-notice").text == "It is gone."
    assert [note.text for note in soup.select("[role=note]")] == ["Read anew."]


@pytest.fixture
def own_templates(tmp_path: Path) -> Path:
    folder = tmp_path / "gpuspawner"
    folder.mkdir()
    return folder


def test_a_sites_template_for_kubespawner_is_not_taken_for_ours(tmp_path: Path):
    (tmp_path / "form.html").write_text("{{ profile_list }}")
    assert render(VIEW, template_dirs=(str(tmp_path),)) == render(VIEW)


def test_a_sites_template_replaces_a_block_of_the_form(tmp_path: Path, own_templates: Path):
    block = '{% block extra %}<p class="site">{{ view.images[0].slug }}</p>{% endblock %}'
    (own_templates / "form.html").write_text('{% extends "gpuspawner/form.html" %}' + block)
    soup = page(VIEW, (str(tmp_path),))
    assert one(soup, "p.site").text == "pytorch"
    assert one(soup, "#gpuspawner-cpu")["value"] == "2"


def test_a_sites_script_cannot_end_its_element(tmp_path: Path, own_templates: Path):
    (own_templates / "form.js").write_text('const a = "</script><i>";\nconst c = "<!-- <script>";')
    (own_templates / "form.css").write_text('.site::after { content: "</style><i>"; }')
    soup = page(VIEW, (str(tmp_path),))
    assert soup.select("i") == []
    script = 'const a = "\\x3c/script><i>";\nconst c = "\\x3c!-- \\x3cscript>";'
    assert one(soup, "script[type=module]").text.strip().endswith(script)
    assert one(soup, "style").text.startswith('.site::after { content: "<\\/style><i>"; }')


def test_a_name_that_is_not_in_the_view_is_an_error_and_not_an_empty_text(tmp_path: Path, own_templates: Path):
    (own_templates / "form.html").write_text("{{ view.colour }}")
    with pytest.raises(jinja2.UndefinedError):
        render(VIEW, template_dirs=(str(tmp_path),))


def is_forms(file: Path) -> bool:
    """Tell an asset of the form from one of the page of a server that starts, which has tests of its own."""
    return file.stem != "waiting"


STYLE_SHEETS = sorted(filter(is_forms, data_dir("templates").glob("*.css")))
SCRIPTS = sorted(filter(is_forms, data_dir("templates").glob("*.js")))
SVG = "http://www.w3.org/2000/svg"
every_style_sheet = pytest.mark.parametrize("file", STYLE_SHEETS, ids=lambda file: file.name)
every_asset = pytest.mark.parametrize("file", [*STYLE_SHEETS, *SCRIPTS], ids=lambda file: file.name)


@every_style_sheet
def test_no_rule_of_a_style_sheet_reaches_outside_the_form(file: Path):
    css = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.DOTALL)
    nested = re.compile(r"\{[^{}]*\}")
    while nested.search(css):
        css = nested.sub(";", css)
    assert css.split() == [".gpuspawner", ";"]


@every_style_sheet
def test_no_selector_needs_a_space_before_a_colon(file: Path):
    """The minifier of the wheel removes it: what was a part of an element would be the element itself."""
    css = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.DOTALL)
    assert re.findall(r"[\w\])] +:\w+", css) == []


@every_asset
def test_style_sheets_and_scripts_load_nothing_but_the_page_they_are_on(file: Path):
    text = file.read_text().replace("return fetch(address, {", "")  # the hub's own, which the page's scripts ask
    text = text.replace(f'"{SVG}"', "")  # a name, which no browser loads
    found = re.findall(r"https?:|//[a-z]|url\(|@import|\bimport\b|\bfetch\b|XMLHttpRequest|sendBeacon", text)
    assert found == []


ASKED = replace(VIEW, asked="", facts=(FactView(name="image", label="Image", text="PyTorch"),))


@every_asset
def test_every_asset_is_in_the_form(file: Path):
    view = {"policy": LIMITED, "profiles": PROFILES, "asked": ASKED}.get(file.stem, VIEW)
    assert file.read_text().strip() in render(view)


@pytest.mark.parametrize("is_open", [True, False])
def test_presets_come_first_and_the_fields_behind_a_door(is_open: bool):
    soup = page(replace(VIEW, is_open=is_open))
    assert one(soup, "details#gpuspawner-custom").has_attr("open") is is_open
    typed = [each["name"] for each in soup.select("#gpuspawner-custom input[type=text]")]
    assert sorted(typed) == ["cpu", "gpu_count", "memory"]


def test_without_presets_there_is_no_door():
    soup = page(replace(VIEW, presets=()))
    assert soup.select("details") == []
    assert len(soup.select("input[name=cpu]")) == 1
