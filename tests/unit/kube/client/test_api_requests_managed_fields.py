from __future__ import annotations

import pytest

from gpuspawner.kube.client.api_requests import strip_managed_fields

MANAGERS = b',"managedFields":[{"manager":"kubelet","fieldsV1":{"f:status":{}}}]'


def test_managers_are_left_out():
    text = b'{"metadata":{"name":"a"%b},"spec":{"nodeName":"n"}}'
    assert strip_managed_fields(text % MANAGERS) == text % b""


@pytest.mark.parametrize(
    "text", [b"", b"{}", b'{"metadata":{"name":"a"},"spec":{}}', b'{"metadata":{"a":1%b}}' % MANAGERS]
)
def test_where_they_are_not_found_nothing_is_left_out(text: bytes):
    assert strip_managed_fields(text) == text
