from __future__ import annotations

from devcluster.device_api import MESSAGES


def test_a_request_of_the_kubelet_is_read_as_the_api_numbers_it() -> None:
    # AllocateRequest{container_requests: [{devices_ids: ["a", "b"]}]} in protobuf's wire format.
    request = MESSAGES["AllocateRequest"].FromString(b"\x0a\x06\x0a\x01a\x0a\x01b")
    assert [list(container.devices_ids) for container in request.container_requests] == [["a", "b"]]


def test_an_environment_travels_as_a_protobuf_map_does() -> None:
    response = MESSAGES["ContainerAllocateResponse"]()
    response.envs.add(key="K", value="V")
    response.devices.add(container_path="/c", host_path="/h", permissions="rw")
    assert response.SerializeToString() == b"\x0a\x06\x0a\x01K\x12\x01V\x1a\x0c\x0a\x02/c\x12\x02/h\x1a\x02rw"


def test_a_registration_travels_as_the_api_numbers_it() -> None:
    request = MESSAGES["RegisterRequest"](version="v1beta1", endpoint="e", resource_name="r")
    assert request.SerializeToString() == b"\x0a\x07v1beta1\x12\x01e\x1a\x01r"
