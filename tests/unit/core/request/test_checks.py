from __future__ import annotations

from dataclasses import replace

import pytest

from gpuspawner.core.catalog.model import Bounds, GPUType
from gpuspawner.core.errors import SelectionError
from gpuspawner.core.request.checks import Problems
from gpuspawner.core.request.field_definitions import CPU as CPU_FIELD
from gpuspawner.core.request.field_definitions import MEMORY, RUN_TIME
from gpuspawner.core.units.quantity import format_cpu

CPU = replace(CPU_FIELD, notation=replace(CPU_FIELD.notation, show=format_cpu))
T4 = GPUType(slug="t4", display_name="T4", resource="nvidia.com/gpu", vendor="nvidia", max_count=4)
ONE_T4 = replace(T4, max_count=1)
GIB = 2**30
BOUNDS = Bounds(min=500, max=4000, step=500, default=1000)


def noted(problems: Problems) -> dict[str, tuple[str, str]]:
    try:
        problems.raise_any()
    except SelectionError as error:
        return {problem.field: (problem.code, problem.message) for problem in error.problems}
    return {}


def test_many_problems_are_cut():
    problems = Problems()
    for number in range(1000):
        problems.add(str(number), "unknown_field", message="no")
    assert len(noted(problems)) == 20


def test_unknown_fields_are_compared_only_while_their_problems_are_kept():
    problems, read = Problems(), []
    # Names that share their first 39 characters have one problem together.
    problems.refuse_unknown((read.append(n) or "memory_" * 6 + str(n) for n in range(100_000)), ["memory"])
    assert (len(read), len(noted(problems))) == (20, 1)


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("a10", "unknown_choice", "There is no GPU type 'a10'. Did you mean 'a100'? Offered: t4, a100."),
        ("zz", "unknown_choice", "There is no GPU type 'zz'. Offered: t4, a100."),
        (["t4"], "wrong_type", "The GPU type must be a text, not a list."),
        ("x" * 201, "too_long", "The name of the GPU type is longer than 200 characters."),
    ],
)
def test_a_choice_that_is_not_offered_is_noted(value: object, code: str, message: str):
    problems = Problems()
    assert problems.check_choice("gpu", value, title="GPU type", offered=("t4", "a100")) is None
    assert noted(problems) == {"gpu": (code, message)}


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        (5, "out_of_range", "CPU must be 0.5 to 4, not 5."),
        (-1, "not_a_number", "CPU must be a number of CPUs, such as 0.5 or 4, not -1."),
        ("0.75", "off_step", "CPU must be 0.5 to 4 in steps of 0.5, not 0.75."),
        ("0.0001", "off_step", "CPU must be 0.5 to 4 in steps of 0.5, not '0.0001'."),
        ("many", "not_a_number", "CPU must be a number of CPUs, such as 0.5 or 4, not 'many'."),
        ("1,5", "not_a_number", "CPU must be a number of CPUs, such as 0.5 or 4, not '1,5'."),
        ("1,000", "not_a_number", "CPU must be a number of CPUs, such as 0.5 or 4, without a mark between thousands."),
        (True, "wrong_type", "CPU must be a number or a text, not true."),
        ({}, "wrong_type", "CPU must be a number or a text, not an object."),
        ("1" * 201, "too_long", "CPU is longer than 200 characters."),
    ],
)
def test_an_amount_outside_its_bounds_is_noted_with_what_is_allowed(value: object, code: str, message: str):
    problems = Problems()
    problems.check_amount(CPU, value, bounds=BOUNDS)
    assert noted(problems) == {"cpu": (code, message)}


@pytest.mark.parametrize(("value", "shown"), [("1.3G", "'1.3G'"), ("1536M", "1.5 GiB"), (1395864371, "1395864371 B")])
def test_an_amount_that_only_bytes_say_exactly_is_shown_as_typed(value: object, shown: str):
    problems = Problems()
    problems.check_amount(MEMORY, value, bounds=Bounds(min=GIB, max=4 * GIB, step=GIB, default=GIB))
    assert noted(problems) == {"memory": ("off_step", f"Memory must be 1 GiB to 4 GiB in steps of 1 GiB, not {shown}.")}


def test_an_amount_without_bounds_cannot_be_chosen():
    problems = Problems()
    problems.check_amount(CPU, 2, bounds=None)
    assert noted(problems) == {"cpu": ("unknown_field", "CPU cannot be chosen here: its bounds are not known.")}


def test_an_amount_without_a_field_cannot_be_chosen_either():
    problems = Problems()
    problems.check_amount(RUN_TIME, "8h", bounds=None)
    assert noted(problems) == {"run_time": ("unknown_field", "The run time cannot be chosen here.")}


@pytest.mark.parametrize(
    ("value", "gpu", "code", "message"),
    [
        (-1, T4, "out_of_range", "The number of GPUs (T4) in one server must be 1 to 4, not -1."),
        (5.0, T4, "out_of_range", "The number of GPUs (T4) in one server must be 1 to 4, not 5."),
        (10**50, ONE_T4, "out_of_range", "The number of GPUs (T4) in one server must be 1, not a number."),
        (1, None, "conflict", "Without a GPU type the number of GPUs must be 0 or left out."),
    ],
    ids=["negative", "too many", "only one", "no type"],
)
def test_a_number_of_gpus_that_the_type_does_not_have_is_noted(
    value: float, gpu: GPUType | None, code: str, message: str
):
    problems = Problems()
    assert problems.check_gpu_count(value, gpu) == value
    assert noted(problems) == {"gpu_count": (code, message)}
