"""Parse and format amounts: CPU, memory, durations.

In: amounts in user options, settings and Kubernetes objects ("16G", "500m", 0.5).
Out: exact whole numbers (millicores, bytes, seconds), and text for forms and messages.
Of gpuspawner's packages, this package imports only ``text``.

- ``quantity``: CPU and memory, exact or rounded; Kubernetes quantities and users' amounts have different notations
- ``duration``: exact durations, such as a server's run time, and rough durations for messages
"""

from gpuspawner.core.units.duration import (
    format_duration,
    format_duration_option,
    format_rough_duration,
    parse_duration,
)
from gpuspawner.core.units.quantity import (
    QuantityError,
    format_cpu,
    format_memory,
    format_memory_option,
    format_rounded_memory,
    parse_cpu,
    parse_memory,
    parse_quantity,
)

__all__ = [
    "QuantityError",
    "format_cpu",
    "format_duration",
    "format_duration_option",
    "format_memory",
    "format_memory_option",
    "format_rough_duration",
    "format_rounded_memory",
    "parse_cpu",
    "parse_duration",
    "parse_memory",
    "parse_quantity",
]
