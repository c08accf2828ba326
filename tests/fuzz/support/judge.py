"""Says what is wrong with an answer, without asking gpuspawner: with a pod, a refusal, or the form that comes back."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from fractions import Fraction
from typing import Any

from markupsafe import escape

from gpuspawner.core.errors import PolicyError, Problem
from gpuspawner.core.request.options import LINK_FIELDS
from gpuspawner.hub.errors import RefusedStart
from tests.fuzz.support.corpus import MARK
from tests.fuzz.support.sites import NVIDIA, PRODUCT, Card, Limits, Offered, Range, Site

FIELDS = frozenset(
    {"v", "preset", "start_preset", "image", "custom_image", "cpu", "memory", "gpu", "gpu_count"}
    | {"run_time", "shared_memory", "priority", "profile"}
)
UNLISTED = "--unlisted-choice"
NOT_AN_OBJECT = ""
"""Field of the one problem that options have which are no object; also what such options are called in an answer."""

_OURS = "gpuspawner.jupyter.org/"
_SHM = "gpuspawner-shm"
_NO_LIMIT = 10**18
_TOLD = 10
"""Problems that the message of a refusal names; a form shows all."""
_CUT = 39
_NO_SUCH_PROFILE = "unknown_choice"
"""Code of a refusal that names no field, because user options of profiles have none that users could see."""
_BROKEN_OUT = re.compile(rf"{re.escape(MARK[:9])}|{re.escape(MARK[1:9])} [\"']")

Pod = dict[str, Any]


def strange(pod: Pod, site: Site, *, plain: Pod) -> list[str]:
    """List what no choice that a site offers puts into a pod.

    :param plain: KubeSpawner's own pod of the same person; a choice must change nothing in it but what belongs to it.
    """
    marks = pod["metadata"]["annotations"]
    said = {name: marks.get(f"{_OURS}{name}") for name in ("image", "gpu", "gpu-count", "summary")}
    image, card = site.images.get(said["image"]) or site.named(said["image"]), site.cards.get(said["gpu"])
    if image is None or (card is None) != (said["gpu"] is None):
        return [f"not offered: {said}"]
    limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
    millis = Fraction(str(limits["cpu"])) * 1000 if "cpu" in limits else None
    size = Fraction(limits["memory"]) if "memory" in limits else None
    found = [*_outside("cpu", millis, site.cpu), *_outside("memory", size, site.memory)]
    deadline_s = pod["spec"].get("activeDeadlineSeconds")
    if site.run_time is not None:
        found += _outside("run time", Fraction(deadline_s or 0), site.run_time)
    shared = _shared_memory(pod, card, size=int(size or 0))
    if shared is not None and site.shared_memory is not None:
        found += _outside("shared memory", Fraction(shared), site.shared_memory)
        found += [f"{shared} of {size} shared"] if size is not None and shared > size else []
    rank = pod["spec"].get("priorityClassName")
    found += [f"priority: {rank}"] if site.priorities and rank not in site.priorities.values() else []
    if found:
        return found
    count = int(said["gpu-count"] or 0)
    if card is not None and not 1 <= count <= card.most:
        found.append(f"{count} of {said['gpu']}")
    if card is not None and image.vendors is not None and card.vendor not in image.vendors:
        found.append(f"{said['image']} does not work with {said['gpu']}")
    if not str(said["summary"]).startswith(image.name):
        found.append(f"summary: {said['summary']}")
    expected = deepcopy(plain)
    _choose_amounts(expected, site, millis=millis, size=size)
    _choose_image(expected, said, image)
    _choose_card(expected, card, count=count)
    _choose_shared_memory(expected, card, size=int(size or 0), own=shared if site.shared_memory else None)
    _choose_run_time(expected, site.run_time and deadline_s)
    expected["spec"] |= {"priorityClassName": rank} if site.priorities and rank else {}
    _choose_nodes(expected, site, image=image, card=card)
    return [*found, *differences(_ordered(expected), _ordered(pod))]


def is_about_fields(site: Site, fields: Mapping[str, Any] | None, options: Mapping[str, Any]) -> bool:
    """Return whether a request chooses by gpuspawner's fields, not by a profile.

    :param fields: name → texts of a form or link; None of other requests.
    :param options: the user options of other requests.
    """
    if not (site.profiles and site.has_fields):
        return site.has_fields
    if fields is not None:
        return not _read_text(fields, "profile")
    names_field = not options.keys().isdisjoint(FIELDS - {"v", "start_preset", "profile"})
    return "v" in options or (names_field and not options.get("profile"))


def misread(options: Mapping[str, Any], fields: Mapping[str, Any]) -> list[str]:
    """List what of a profile's user options is not what its card or link says.

    :param fields: name → texts of the form or link.
    """
    expected = {}
    if slug := _read_text(fields, "profile"):
        prefix = f"profile-option-{slug}--"
        texts = {name.removeprefix(prefix): _read_text(fields, name) for name in fields if name.startswith(prefix)}
        # A text field is used where no entry is picked.
        unused = {f"{name}{UNLISTED}" for name, text in texts.items() if text}
        expected = {"profile": slug} | {name: text for name, text in texts.items() if text and name not in unused}
    return list(differences(expected, dict(options)))


def _read_text(fields: Mapping[str, Any], name: str) -> str:
    texts = fields.get(name) or [""]
    return str(texts[0]).strip()


def strange_profile(pod: Pod, site: Site, *, plain: Pod) -> list[str]:
    """List what of a profile's pod KubeSpawner has not built, or is beyond the policy.

    :param plain: KubeSpawner's pod of the same person and profile.
    """
    marks = pod["metadata"].get("annotations", {})
    notes = {name.removeprefix(_OURS): text for name, text in marks.items() if name.startswith(_OURS)}
    spec, limits = pod["spec"], pod["spec"]["containers"][0]["resources"].get("limits", {})
    problems = [] if notes.pop("summary", "") else ["no summary"]
    if (notes.get("gpu-count"), "gpu-name" in notes) != (limits.get(NVIDIA), NVIDIA in limits):
        problems.append(f"GPUs: {notes}")
    expected, plain_spec = deepcopy(plain), plain["spec"]
    if site.limits is not None:
        problems += _beyond(site.limits, spec)
        expected["spec"]["activeDeadlineSeconds"] = site.limits.run_time_s
        problems += [] if notes.get("run-time-seconds") == str(site.limits.run_time_s) else [f"run time: {notes}"]
    elif "activeDeadlineSeconds" in spec and "activeDeadlineSeconds" not in plain_spec:
        problems.append("a run time")
    built = deepcopy(pod)
    built["metadata"]["annotations"] = {name: text for name, text in marks.items() if not name.startswith(_OURS)}
    return [*problems, *differences(_ordered(expected), _ordered(built))]


def _beyond(limits: Limits, spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of a pod's spec is beyond the policy; no limit is beyond any."""
    notebook = spec["containers"][0]
    amounts = notebook["resources"].get("limits", {})
    gpus = int(amounts.get(NVIDIA, 0))
    if gpus > limits.gpus or (gpus and spec["nodeSelector"].get(PRODUCT) not in limits.products):
        yield f"{gpus} GPUs of {spec['nodeSelector']}"
    if Fraction(str(amounts.get("cpu", _NO_LIMIT))) * 1000 > limits.cpu:
        yield f"CPU: {amounts.get('cpu')}"
    if Fraction(amounts.get("memory", _NO_LIMIT)) > limits.memory:
        yield f"memory: {amounts.get('memory')}"
    if notebook["image"] not in limits.images:
        yield f"image: {notebook['image']}"


def unnamed(refused: RefusedStart, names: frozenset[str]) -> list[str]:
    """List what of a refusal does not say which field is meant.

    :param names: names of the fields that were sent.
    """
    problems = getattr(refused.__cause__, "problems", ())
    # No field is meant where all options together are too large.
    known = (
        FIELDS
        | {_shown(name) for name in names}
        | {name for name in names if name.startswith("profile-option-") and name.isprintable()}
        | {problem.field for problem in problems if problem.code == "too_large"}
    )
    found = [f"{problem.field!r} was not sent" for problem in problems if problem.field not in known]
    found += [f"says nothing: {problem}" for problem in problems if not problem.message.isprintable()]
    told = str(refused.message)
    lines = {each: f"{each.field}: {each.message}" if each.field else each.message for each in problems[:_TOLD]}
    found += [f"not told: {each}" for each, line in lines.items() if line not in told]
    if not problems and refused.code != _NO_SUCH_PROFILE:
        found.append(f"no field: {told}")
    status = 403 if isinstance(refused.__cause__, PolicyError) else 400
    if (refused.status_code, told.isprintable()) != (status, True):
        found.append(f"{refused.status_code}: {told!r}")
    return found


def misshown(page: str, refused: RefusedStart | None = None) -> list[str]:
    """List what is wrong with a form: it cannot be sent, what was typed broke out of its place, a message is gone."""
    found = []
    try:
        page.encode()
    except UnicodeEncodeError as error:
        found.append(str(error))
    if escaped := _BROKEN_OUT.search(page):
        found.append(page[max(0, escaped.start() - 80) : escaped.end() + 80])
    problems = getattr(getattr(refused, "__cause__", None), "problems", ())
    found += [f"not in the form: {each.message}" for each in problems if not _is_shown(each, page)]
    return found


def _is_shown(problem: Problem, page: str) -> bool:
    """Return whether a form says what to enter, at the field, or else why it was refused, as at a preset."""
    texts = [problem.message]
    # Of a link, the form says in other words what the hub does not offer and what is unclear, and names what are
    # no fields together.
    if problem.code == "unknown_choice":
        texts += ["This link asks for ", "This hub doesn't have the "]
    elif problem.code == "conflict":
        texts += ["This link gives ", "This link names two GPUs."]
    if problem.field not in LINK_FIELDS:
        texts.append("This link has ")
    return any(str(escape(text)) in page for text in texts)


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield where two JSON values differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            yield from differences(expected.get(key), found.get(key), f"{path}.{key}")
    elif expected != found:
        yield f"{path}: {found!r} instead of {expected!r}"


def _shown(name: str) -> str:
    """Return the name of an unknown field as a message repeats it."""
    return repr(name if len(name) <= _CUT + 1 else f"{name[:_CUT]}…")[1:-1]


def _outside(what: str, amount: Fraction | None, bounds: Range) -> list[str]:
    if amount is None:
        return [] if bounds.is_optional else [f"{what}: none"]
    fits = bounds.least <= amount <= bounds.most and (amount - bounds.least) % bounds.step == 0
    return [] if fits else [f"{what}: {amount}"]


def _part(whole: int, part: tuple[int, int]) -> int:
    return math.ceil(Fraction(whole) * Fraction(*part))


def _choose_run_time(pod: Pod, seconds: int | None) -> None:
    if not seconds:
        return
    pod["spec"]["activeDeadlineSeconds"] = seconds
    pod["metadata"]["annotations"][f"{_OURS}run-time-seconds"] = str(seconds)
    _set(pod["spec"]["containers"][0], GPUSPAWNER_RUN_TIME=seconds)


def _choose_amounts(pod: Pod, site: Site, *, millis: Fraction | None, size: Fraction | None) -> None:
    limits: dict[str, float] = {}
    requests: dict[str, float] = {}
    notebook = pod["spec"]["containers"][0]
    if millis is not None:
        limits["cpu"], requests["cpu"] = int(millis) / 1000, _part(int(millis), site.cpu.guarantee) / 1000
        _set(notebook, CPU_LIMIT=limits["cpu"], CPU_GUARANTEE=requests["cpu"])
    if size is not None:
        limits["memory"], requests["memory"] = int(size), _part(int(size), site.memory.guarantee)
        _set(notebook, MEM_LIMIT=limits["memory"], MEM_GUARANTEE=requests["memory"])
    notebook["resources"] = {"limits": limits, "requests": requests}


def _choose_image(pod: Pod, said: Mapping[str, str | None], image: Offered) -> None:
    notebook = pod["spec"]["containers"][0]
    notebook["image"] = image.reference
    _set(notebook, JUPYTER_IMAGE=image.reference, JUPYTER_IMAGE_SPEC=image.reference)
    told = {f"{_OURS}{name}": value for name, value in said.items() if value is not None}
    pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **told}


def _shared_memory(pod: Pod, card: Card | None, *, size: int) -> int | None:
    """Return the size of a pod's /dev/shm, None where it has none but its GPU type's."""
    volumes = {each["name"]: each for each in pod["spec"].get("volumes", [])}
    found = int(volumes[_SHM]["emptyDir"]["sizeLimit"]) if _SHM in volumes else None
    return None if card is not None and card.shm is not None and found == _part(size, card.shm) else found


def _choose_shared_memory(pod: Pod, card: Card | None, *, size: int, own: int | None) -> None:
    by_type = _part(size, card.shm) if card is not None and card.shm is not None else None
    if by_type is None and own is None:
        return
    notebook = pod["spec"]["containers"][0]
    volume = {"medium": "Memory", "sizeLimit": str(by_type if own is None else own)}
    pod["spec"]["volumes"] = [*pod["spec"].get("volumes", []), {"name": _SHM, "emptyDir": volume}]
    notebook["volumeMounts"] = [*notebook.get("volumeMounts", []), {"name": _SHM, "mountPath": "/dev/shm"}]


def _choose_card(pod: Pod, card: Card | None, *, count: int) -> None:
    notebook = pod["spec"]["containers"][0]
    variables = {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "AMD_VISIBLE_DEVICES": "void",
        "HABANA_VISIBLE_DEVICES": "none",
    }
    if card:
        variables.pop(f"{card.vendor.upper()}_VISIBLE_DEVICES", None)
    if card is not None:
        marks = pod["metadata"]["annotations"]
        marks[f"{_OURS}gpu-name"] = card.name
        variables |= {"GPUSPAWNER_GPU": marks[f"{_OURS}gpu"], "GPUSPAWNER_GPU_NAME": card.name}
        variables |= {"GPUSPAWNER_GPU_COUNT": str(count)}
        notebook["resources"]["limits"][card.resource] = str(count)
        pod["spec"] |= deepcopy(dict(card.spec))
        variables |= card.environment
    _set(notebook, **variables)


def _set(container: Pod, **variables: object) -> None:
    """Set environment variables as KubeSpawner writes them."""
    others = [each for each in container["env"] if each["name"] not in variables]
    container["env"] = [*others, *({"name": name, "value": str(value)} for name, value in variables.items())]


def _choose_nodes(pod: Pod, site: Site, *, image: Offered, card: Card | None) -> None:
    required, preferred = [*image.expressions, *(card.expressions if card else [])], [] if card else [*site.avoided]
    affinity: dict[str, Any] = {}
    if required:
        terms = {"nodeSelectorTerms": [{"matchExpressions": required}]}
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    if preferred:
        # The finished pod requires them where it fits without GPU nodes.
        preference = {"weight": 100, "preference": {"matchExpressions": preferred}}
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [preference]
    if affinity:
        pod["spec"]["affinity"] = {"nodeAffinity": affinity}


def _ordered(value: Any) -> Any:
    """Return a JSON value without what is empty, and with its lists by name or in one order: Kubernetes minds none."""
    if isinstance(value, dict):
        ordered = {key: _ordered(each) for key, each in value.items()}
        return {key: each for key, each in ordered.items() if each not in (None, [], {})}
    if isinstance(value, list):
        items = [_ordered(each) for each in value]
        named = {each["name"]: each for each in items if isinstance(each, dict) and "name" in each}
        return named if named and len(named) == len(items) else sorted(items, key=repr)
    return value
