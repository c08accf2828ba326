"""Forms as the templates see them: a small one, and one in which everything is hostile."""

from __future__ import annotations

from dataclasses import replace

from gpuspawner.core.form.views import (
    AlternativeView,
    ChoiceFieldView,
    ChoiceView,
    CustomImageView,
    FormView,
    GPUTypeState,
    GPUTypeView,
    ImageView,
    MisfitView,
    NumberView,
    PolicyView,
    PresetView,
    ProfileOptionView,
    ProfileView,
    TimeView,
    VendorView,
    VerdictView,
)
from gpuspawner.core.warnings.wording import WarningsView, WarningView

HOSTILE = (
    """</script><script>alert(1)</script><img src=x onerror=alert(1)>"'`{{ 7 * 7 }}{% raw %}${1}<!--""" + "x" * 2000
)

T4 = GPUTypeView(
    slug="t4",
    display_name="Tesla T4",
    vendor="nvidia",
    memory_text="15 GiB",
    memory_gib=15.0,
    unit="card",
    unit_text="full GPU",
    max_count=4,
    total=8,
    healthy=7,
    free=3,
    largest=2,
    waiting=0,
    capacity_text="3 of 8 free",
    details_text="1 of 8 broken,\nup to 2 at once",
    state=GPUTypeState.FREE,
    reason="",
    shapes=((4000, 16 << 30, 2),),
    largest_shapes=((8000, 32 << 30, 4),),
    description="",
    note="Simulated.",
)
MI210 = replace(T4, slug="mi210", display_name="MI210", vendor="amd", max_count=2, total=None, healthy=None, free=None)
NEVER = replace(
    T4, slug="h100", display_name="H100", state=GPUTypeState.NEVER, reason="There is none.", total=0, free=0
)
VALUES = {
    "image": "pytorch",
    "custom_image": "",
    "cpu": "2",
    "memory": "8",
    "gpu": "",
    "gpu_count": "",
    "run_time": "",
    "shared_memory": "",
    "priority": "",
}
RUN_TIME = NumberView(min="30m", max="2d", step="30m", default="8h")
SHARED_MEMORY = NumberView(min="0.25", max="16", step="0.25", default="0.25")
MISFIT = MisfitView(text="PyTorch is made for NVIDIA GPUs.", gpus=("mi210",))
VERDICT = VerdictView(
    outcome="waits",
    sentence="Will wait: none is free.",
    alternatives=(
        AlternativeView(
            sentence="1 × Tesla T4",
            values={**VALUES, "gpu": "t4", "gpu_count": "1"},
        ),
    ),
)
CUSTOM = CustomImageView(
    card=ImageView(slug="", display_name="Custom image", description="Any."), help="Written as registry/name:tag."
)
VIEW = FormView(
    images=(
        ImageView(
            slug="pytorch", display_name="PyTorch", description="With CUDA.", made_for="NVIDIA GPUs", misfits=(MISFIT,)
        ),
        ImageView(slug="plain", display_name="Plain Python", description=""),
    ),
    cpu=NumberView(min="0.5", max="32", step="0.5", default="2"),
    memory=NumberView(min="1", max="256", step="1", default="8"),
    vendors=(
        VendorView(slug="nvidia", display_name="NVIDIA", types=(T4,)),
        VendorView(slug="amd", display_name="AMD", types=(MI210,)),
    ),
    presets=(
        PresetView(
            slug="train",
            display_name="Training",
            description="",
            summary="PyTorch with 1 × Tesla T4",
            values={**VALUES, "cpu": "8", "memory": "64", "gpu": "t4", "gpu_count": "1"},
            outlook=VerdictView(outcome="now", sentence="Starts now: room for 3"),
        ),
    ),
    values=VALUES,
)


def priorities(*entries: ChoiceView, label: str = "Priority") -> tuple[ChoiceFieldView, ...]:
    title = label.lower()
    return (ChoiceFieldView(name="priority", section="priorities", label=label, title=title, entries=entries),)


MORE = replace(
    VIEW,
    run_time=RUN_TIME,
    shared_memory=SHARED_MEMORY,
    choices=priorities(
        ChoiceView(slug="normal", display_name="Normal", phrase="priority Normal"),
        ChoiceView(slug="low", display_name="Low", description="It may be stopped.", phrase="priority Low"),
    ),
    values={**VALUES, "run_time": "8h", "priority": "normal"},
)
WRONG = replace(
    MORE,
    errors={"run_time": "Too long.", "shared_memory": "Too much.", "priority": "Too high."},
    notices={"run_time": "It is gone.", "shared_memory": "As well.", "priority": "As that."},
)
DENIED = replace(T4, slug="a100", display_name="A100", state=GPUTypeState.DENIED, reason="You have two already.")
POLICY = PolicyView(
    in_use="2 of 4 GPUs in use by you\nPhysics: 16 GPUs for all members together.",
    times=(TimeView(slug="", longest="8h"), TimeView(slug="t4", longest="4h")),
    ending="Your server is stopped after 8 hours at the latest.",
)
LIMITED = replace(
    VIEW,
    images=(*VIEW.images, ImageView(slug="lab", display_name="Lab", description="Theirs.", denied="Not for you.")),
    vendors=(VendorView(slug="x", display_name="X", types=(replace(T4, longest_text="up to 4 hours"), DENIED)),),
    presets=(
        *VIEW.presets,
        replace(
            VIEW.presets[0],
            slug="large",
            outlook=VerdictView(outcome="never", sentence="You have two already."),
            is_denied=True,
        ),
    ),
    policy=replace(
        POLICY, custom_image=ImageView(slug="", display_name="Custom image", description="Any.", denied="No others.")
    ),
)
BLOCKED = replace(LIMITED, policy=PolicyView(blocked="Your groups could not be read."))
ERRORS = {"image": "No such image.", "cpu": "Too many.", "memory": "Odd.", "gpu": "Gone.", "gpu_count": "Too many."}


SIZES = ProfileOptionView(
    field="profile-option-small--size",
    label="Memory",
    choices=(("four", "4 GB"), ("eight", "8 GB")),
    picked="eight",
)
IMAGES = ProfileOptionView(
    field="profile-option-small--image",
    label="Image",
    choices=(("lab", "Lab"), ("", "Other…")),
    picked="lab",
    text_field="profile-option-small--image--unlisted-choice",
    text_label="Your image",
    text="quay.io/a/b:1",
)
SMALL = ProfileView(
    slug="small",
    display_name="Small <em>GPU</em>",
    description="For <b>exercises</b>.",
    summary="1 × Tesla T4 · 8 GiB",
    options=(SIZES, IMAGES),
    outlook=VerdictView(outcome="waits", sentence="Will wait: none is free."),
    is_last=True,
    is_picked=True,
)
STAFF = ProfileView(
    slug="staff",
    display_name="Staff",
    summary="8 × Tesla T4",
    outlook=VerdictView(outcome="never", sentence="You don't have access to Tesla T4."),
    is_denied=True,
)
PROFILES = replace(VIEW, profiles=(SMALL, STAFF))
ONLY_PROFILES = FormView(
    profiles=(replace(SMALL, error="There is no such choice.", outlook=None), STAFF),
    values=dict.fromkeys(VALUES, ""),
    errors={"profile": "There is no such choice."},
    capacity_notice="GPU capacity is unknown right now.",
    has_fields=False,
)


HOSTILE_POLICY = PolicyView(
    in_use=HOSTILE,
    blocked=HOSTILE,
    times=(TimeView(slug=HOSTILE, longest=HOSTILE, run_time=RUN_TIME),),
    ending=HOSTILE,
)


HOSTILE_CHOICE = ChoiceView(slug=HOSTILE, display_name=HOSTILE, description=HOSTILE, phrase=HOSTILE)


# Names and descriptions are HTML of the admin, as in KubeSpawner's own form.
HOSTILE_PROFILE = replace(
    SMALL,
    slug=HOSTILE,
    summary=HOSTILE,
    outlook=VerdictView(outcome=HOSTILE, sentence=HOSTILE),
    options=(
        ProfileOptionView(
            field=HOSTILE,
            label="Memory",
            choices=((HOSTILE, "4 GB"),),
            picked=HOSTILE,
            text_field=HOSTILE,
            text_label="Memory",
            text=HOSTILE,
        ),
    ),
    error=HOSTILE,
)


def hostile_view() -> FormView:
    gpu = replace(
        T4,
        slug=HOSTILE,
        display_name=HOSTILE,
        description=HOSTILE,
        note=HOSTILE,
        badges=(HOSTILE,),
        caution=HOSTILE,
        longest_text=HOSTILE,
        capacity_text=HOSTILE,
        details_text=HOSTILE,
        reason=HOSTILE,
    )
    card = ImageView(slug="", display_name=HOSTILE, description=HOSTILE)
    misfits = (MisfitView(text=HOSTILE, gpus=(HOSTILE,)),)
    values = dict.fromkeys(VIEW.values, HOSTILE)
    return replace(
        VIEW,
        images=(replace(card, slug=HOSTILE, made_for=HOSTILE, misfits=misfits, denied=HOSTILE),),
        custom_image=CustomImageView(card=card, help=HOSTILE, complaint=HOSTILE),
        vendors=(VendorView(slug=HOSTILE, display_name=HOSTILE, types=(gpu,)),),
        presets=(
            replace(
                VIEW.presets[0],
                slug=HOSTILE,
                display_name=HOSTILE,
                summary=HOSTILE,
                values=values,
                outlook=VerdictView(outcome=HOSTILE, sentence=HOSTILE),
            ),
        ),
        profiles=(HOSTILE_PROFILE,),
        values=values,
        run_time=RUN_TIME,
        shared_memory=SHARED_MEMORY,
        choices=priorities(HOSTILE_CHOICE, label=HOSTILE),
        errors={"cpu": HOSTILE, HOSTILE: HOSTILE},
        notices={"image": HOSTILE, "run_time": HOSTILE, "": HOSTILE},
        capacity_notice=HOSTILE,
        summary=HOSTILE,
        verdict=VerdictView(
            outcome=HOSTILE,
            sentence=HOSTILE,
            alternatives=(AlternativeView(sentence=HOSTILE, values=values),),
        ),
        age_text=HOSTILE,
        flags=WarningsView(summary=HOSTILE, flags=(WarningView(HOSTILE, HOSTILE),), more=HOSTILE),
        policy=HOSTILE_POLICY,
    )
