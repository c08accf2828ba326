from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.cluster.dra import AttributeTerm, parse_cel_selector, selects_device

NVIDIA = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
TYPE = "gpu.nvidia.com/type"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'd'", (AttributeTerm("", "d"),)),
        ('device.driver == "d"', (AttributeTerm("", "d"),)),
        ("  device.driver=='d'\n", (AttributeTerm("", "d"),)),
        (NVIDIA, (AttributeTerm("", "gpu.nvidia.com"), AttributeTerm(TYPE, "gpu"))),
        (NVIDIA.replace("'", '"'), (AttributeTerm("", "gpu.nvidia.com"), AttributeTerm(TYPE, "gpu"))),
        ("device.attributes[ 'd' ].a == ''&&device.driver == 'd'", (AttributeTerm("d/a", ""), AttributeTerm("", "d"))),
    ],
)
def test_comparisons_with_texts_are_understood(expression: str, expected: tuple[AttributeTerm, ...]):
    assert parse_cel_selector(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "true",
        "device.driver",
        "device.driver != 'd'",
        "!(device.driver == 'd')",
        "'d' == device.driver",
        "device.driver == 'd' || device.driver == 'e'",
        "device.driver == 'd' &&",
        "device.driver == 'd' & device.driver == 'd'",
        "device.driver == 'd' && true",
        "device.driver == 'd' == true",
        "device.driver == 'd' + 'e'",
        "device.driver == '''d'''",
        "device.driver == r'd'",
        r"device.driver == 'a\x62'",
        "device.driver == 'd\n'",
        "device.driver == 'd\"",
        "device.driver == 'd'.lowerAscii()",
        "device.driverx == 'd'",
        "device.attributes['d'].a.b == 'c'",
        "device.attributes['d'].a == 1",
        "device.attributes['d']['a'] == 'c'",
        "device.attributes[d].a == 'c'",
        "device.capacity['d'].memory.isGreaterThan(quantity('40Gi'))",
        "device.driver == 'd' ? true : false",
        "device.driver == 'd' // a comment",
    ],
)
def test_anything_else_is_not_understood(expression: str):
    assert parse_cel_selector(expression) is None


@given(st.text(alphabet="device.rvatbu[]'\"=&|! \\\n") | st.text())
def test_any_text_can_be_looked_at(expression: str):
    assert parse_cel_selector(expression) is None or "==" in expression


@pytest.mark.parametrize(
    ("attributes", "driver", "expected"),
    [
        ({TYPE: "gpu"}, "gpu.nvidia.com", True),
        ({TYPE: "mig"}, "gpu.nvidia.com", False),
        ({TYPE: "gpu"}, "gpu.amd.com", False),
        ({}, "gpu.nvidia.com", None),
        # In CEL, false && error is false.
        ({}, "gpu.amd.com", False),
    ],
)
def test_a_device_is_meant_where_all_terms_hold(attributes: dict[str, str], driver: str, expected: bool | None):
    assert selects_device([parse_cel_selector(NVIDIA)], attributes, driver=driver) is expected


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ([], True),
        (["device.driver == 'd'", "device.driver == 'd'"], True),
        (["device.driver == 'd'", "device.driver == 'e'"], False),
        (["device.driver == 'd'", "size(device.driver) > 1"], None),
        (["device.driver == 'e'", "size(device.driver) > 1"], False),
        (["size(device.driver) > 1", "device.driver == 'e'"], None),
    ],
)
def test_the_first_selector_that_is_not_true_decides(selectors: list[str], expected: bool | None):
    assert selects_device(map(parse_cel_selector, selectors), {}, driver="d") is expected
