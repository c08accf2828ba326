from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuspawner.core.progress.images import (
    PulledImage,
    PullFailure,
    classify_pull_failure,
    parse_image_name,
    parse_pulled,
)

IMAGE = "quay.io/example/notebook:1"
CONTAINERD = f'Failed to pull image "{IMAGE}": rpc error: code = '


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        (
            f'{CONTAINERD}NotFound desc = failed to pull and unpack image: failed to resolve reference "{IMAGE}": '
            f"{IMAGE}: not found",
            "not-found",
        ),
        (f"{CONTAINERD}Unknown desc = reading manifest 1 in quay.io/example/notebook: manifest unknown", "not-found"),
        (
            f"{CONTAINERD}Unknown desc = Error response from daemon: pull access denied for example/notebook, "
            "repository does not exist or may require 'docker login'",
            "denied",
        ),
        (
            f"{CONTAINERD}Unknown desc = failed to pull and unpack image: failed to resolve reference: pull access "
            "denied, repository does not exist or may require authorization: server message: insufficient_scope: "
            "authorization failed",
            "denied",
        ),
        (
            f"{CONTAINERD}Unknown desc = unexpected status from HEAD request to https://quay.io: 401 UNAUTHORIZED",
            "denied",
        ),
        (f"{CONTAINERD}Unknown desc = failed to authorize: unexpected status: 403 Forbidden", "denied"),
        (f"{CONTAINERD}Unknown desc = requested access to the resource is denied", "denied"),
        (f"{CONTAINERD}Unknown desc = no basic auth credentials", "denied"),
        (
            f"{CONTAINERD}Unknown desc = toomanyrequests: You have reached your pull rate limit. You may increase the "
            "limit by authenticating",
            "rate-limit",
        ),
        (f"{CONTAINERD}Unknown desc = unexpected status code 429 Too Many Requests - unauthorized", "rate-limit"),
        ("pull QPS exceeded", "rate-limit"),
        (
            f'{CONTAINERD}Unknown desc = failed to do request: Head "https://registry.example/v2/": dial tcp: lookup '
            "registry.example on 10.96.0.10:53: no such host",
            "unreachable",
        ),
        (f"{CONTAINERD}Unknown desc = dial tcp 10.0.0.9:5000: connect: connection refused", "unreachable"),
        (f"{CONTAINERD}Unknown desc = dial tcp 10.0.0.9:443: i/o timeout", "unreachable"),
        (f"{CONTAINERD}DeadlineExceeded desc = context deadline exceeded", "unreachable"),
        (f"{CONTAINERD}Unknown desc = tls: failed to verify certificate: x509: unknown authority", "untrusted"),
        (
            f"{CONTAINERD}NotFound desc = failed to pull image: no match for platform in manifest: not found",
            "platform",
        ),
        (f"{CONTAINERD}Unknown desc = write /var/lib/x: no space left on device", "disk-full"),
        (
            f'{CONTAINERD}Unknown desc = failed to do request: Head "https://{IMAGE}": tls: failed to verify'
            " certificate: x509: certificate has expired or is not yet valid: current time 2026-05-04T08:00:00Z is"
            " after 2026-05-01T00:00:00Z",
            "untrusted",
        ),
        (
            f"{CONTAINERD}Unknown desc = x509: certificate has expired or is not yet valid: current time"
            " 2020-01-01T00:00:09Z is before 2026-05-01T00:00:00Z",
            "unreachable",
        ),
        (
            f'{CONTAINERD}Unknown desc = failed to do request: Head "https://registry.example:5000/v2/": http: server'
            " gave HTTP response to HTTPS client",
            "untrusted",
        ),
        (f"{CONTAINERD}Unknown desc = net/http: TLS handshake timeout", "unreachable"),
        (
            f'{CONTAINERD}NotFound desc = failed to pull and unpack image "{IMAGE}": failed to unpack image on'
            " snapshotter overlayfs: content digest sha256:0c18: not found",
            "damaged-store",
        ),
        (
            f'{CONTAINERD}NotFound desc = failed to prepare extraction snapshot "extract-1 sha256:9281": parent'
            " snapshot sha256:0b16 does not exist: not found",
            "damaged-store",
        ),
        (
            f"{CONTAINERD}Unknown desc = failed to prepare extraction snapshot: failed to stat parent: stat"
            " /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/112/fs: no such file or directory",
            "damaged-store",
        ),
        (f"{CONTAINERD}Unknown desc = error creating read-write layer: layer not known", "damaged-store"),
        (
            f"{CONTAINERD}NotFound desc = failed to copy: httpReadSeeker: failed open: could not fetch content"
            " descriptor sha256:1 from remote: not found",
            "not-found",
        ),
        (
            "Failed to get credentials: exec: executable file not found: docker-credential-x",
            "other",
        ),
        # containerd 2.4 with kubelet 1.36.
        (
            f'Back-off pulling image "{IMAGE}": ErrImagePull: failed to pull and unpack image "{IMAGE}": failed to '
            "resolve image: pull access denied, repository does not exist or may require authorization: authorization "
            "failed: no basic auth credentials",
            "denied",
        ),
        (
            f'Back-off pulling image "{IMAGE}": ErrImagePull: rpc error: code = NotFound desc = failed to pull and '
            f'unpack image "{IMAGE}": failed to resolve image: {IMAGE}: not found',
            "not-found",
        ),
        (
            f'failed to pull and unpack image "{IMAGE}": failed to resolve image: failed to do request: Head '
            '"https://quay.io/v2/example/notebook/manifests/1": dial tcp 127.0.0.1:1: connect: connection refused',
            "unreachable",
        ),
        ("Error: ErrImagePull", "other"),
        ("Error: ImagePullBackOff", "other"),
        ("", "other"),
    ],
)
def test_why_an_image_cannot_be_had_is_read(message: str, failure: str):
    assert classify_pull_failure(message) is PullFailure(failure)


def test_an_image_s_name_says_nothing():
    image = "registry.example/toomanyrequests/unauthorized/notfound:429"
    message = f'Failed to pull image "{image}": rpc error: code = Unknown desc = {image}: connection refused'
    assert classify_pull_failure(message) is PullFailure.UNREACHABLE


@pytest.mark.parametrize(
    ("message", "known"),
    [
        (
            f'Successfully pulled image "{IMAGE}" in 1m38.25s (2m1s including waiting). Image size: 5123456789 bytes.',
            PulledImage(was_present=False, seconds=98.25, size_bytes=5123456789),
        ),
        (
            f'Successfully pulled image "{IMAGE}" in 812ms (812ms including waiting)',
            PulledImage(was_present=False, seconds=0.812),
        ),
        (f'Successfully pulled image "{IMAGE}" in 1h0m2s', PulledImage(was_present=False, seconds=3602.0)),
        (f'Successfully pulled image "{IMAGE}"', PulledImage(was_present=False)),
        ('Successfully pulled image "x in 5s"', PulledImage(was_present=False)),
        ('Successfully pulled image "x" in 1.2.3s', PulledImage(was_present=False)),
        (f'Container image "{IMAGE}" already present on machine', PulledImage(was_present=True)),
        (
            f'Container image "{IMAGE}" already present on machine and can be accessed by the pod',
            PulledImage(was_present=True),
        ),
    ],
)
def test_time_and_size_of_an_image_are_read(message: str, known: PulledImage):
    assert parse_pulled(message) == known


def test_the_image_is_read():
    assert (parse_image_name(f'Pulling image "{IMAGE}"'), parse_image_name("Pulling"), parse_image_name('"')) == (
        IMAGE,
        "",
        "",
    )


@given(st.text())
def test_any_text_is_read(message: str):
    assert classify_pull_failure(message) in PullFailure
    assert parse_pulled(f" in {message}s").seconds != -1
