"""The kubelet's device plugin API, version v1beta1, as Python messages.

The table below is k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto without what this plugin never sends. Building
the messages from it at import spares the repository generated code, and the user a protobuf compiler.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "v1beta1"

_TABLE: dict[str, dict[str, tuple[int, str]]] = {
    "Empty": {},
    "DevicePluginOptions": {"pre_start_required": (1, "bool"), "get_preferred_allocation_available": (2, "bool")},
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "Device": {"ID": (1, "string"), "health": (2, "string")},
    "ListAndWatchResponse": {"devices": (1, "Device*")},
    "ContainerAllocateRequest": {"devices_ids": (1, "string*")},
    "AllocateRequest": {"container_requests": (1, "ContainerAllocateRequest*")},
    # A map travels as a repeated pair of key and value (protobuf's language guide, "Backwards compatibility" of maps).
    "Variable": {"key": (1, "string"), "value": (2, "string")},
    "DeviceSpec": {"container_path": (1, "string"), "host_path": (2, "string"), "permissions": (3, "string")},
    "ContainerAllocateResponse": {"envs": (1, "Variable*"), "devices": (3, "DeviceSpec*")},
    "AllocateResponse": {"container_responses": (1, "ContainerAllocateResponse*")},
}
"""Message → field → (number, type); a star marks a repeated field."""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="devcluster/device_plugin.proto", package=PACKAGE, syntax="proto3")
    for message_name, fields in _TABLE.items():
        message = file.message_type.add(name=message_name)
        for field_name, (number, kind) in fields.items():
            entry = message.field.add(name=field_name, number=number)
            entry.label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
            base = kind.rstrip("*")
            if base in _SCALARS:
                entry.type = _SCALARS[base]
            else:
                entry.type = _Field.TYPE_MESSAGE
                entry.type_name = f".{PACKAGE}.{base}"
    return file


def _messages() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _TABLE}


MESSAGES: dict[str, Any] = _messages()
"""The message classes by their names in the API."""
