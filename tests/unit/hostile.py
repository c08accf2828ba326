"""Any JSON, long texts that cost a program much if its expressions are slow, and the measure of what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable

from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
PIECES = (
    "A", "1", "A ", '"', '"a" ', "'", "{", "{a", "}", "/", "a/", "a.", "a-", "\n", "spec.a", "spec.a[", "pods: ",
    "by pod ", "used by ", "jupyter-", "jupyter-x ", "hub/", "claim-", "claim-a-", "0/1 nodes are available", " in 1h",
    "1 Insufficient a", "node(s) had taint {a", 'persistentvolumeclaim "', "untolerated taint {", "would exceed ",
    "exceeded quota: a", "exceeded quota: a, used: a,", "failed quota: a: must specify ", 'failed calling webhook "',
    'failed calling webhook "a" Post "https://a', "admission webhook ", "ValidatingAdmissionPolicy ",
    "ValidatingAdmissionPolicy 'a' with binding 'a' ", "Pod should schedule on: node/a, ",
    "insufficient quota for a in flavor a, ", "insufficient quota for a in flavor a,> maximum capacity (", "flavor a ",
    "image operating system ", 'MountVolume.a failed for volume "', "Unable to attach or mount volumes: ", 'exec: "',
    "executable file ", "unsatisfied condition: ", "content digest ", "maximum a usage per a is 1, but limit is 1,",
    "exited with ", "stat /dev/a", 'error mounting "',
)  # fmt: skip
"""Beginnings of what the program looks for, and what its expressions may run over; repeated, they make a text."""


def make_text(piece: str, length: int = 64_000) -> str:
    """Return a text of that many characters that repeats the piece."""
    return (piece * (length // len(piece) + 1))[:length]


def measure_cpu_s(call: Callable[[], object], *, tries: int = 3) -> float:
    """Return the seconds of processor time of the fastest of several calls; other programs add little to them."""
    fastest_s = float("inf")
    for _ in range(tries):
        began_s = time.process_time()
        call()
        fastest_s = min(fastest_s, time.process_time() - began_s)
    return fastest_s
