"""News of a start reaches every page that waits for it."""

from __future__ import annotations

import asyncio

import pytest

from gpuspawner.core.progress.model import Report, Stage
from gpuspawner.hub.start.stream import ProgressFeed, read_uid

REPORT = Report(stage=Stage.WAITING, sentence="It waits.", percent=10)


async def test_no_page_is_woken_for_nothing():
    following = ProgressFeed()
    assert following.last is None
    following.publish([REPORT], percent=12)
    assert following.last == REPORT
    waiting = asyncio.create_task(following.wait_for_news(timeout_s=None))
    await asyncio.sleep(0)
    following.publish([], percent=12)
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_who_waits_for_some_seconds_waits_no_longer():
    async with asyncio.timeout(1):
        await ProgressFeed().wait_for_news(timeout_s=0.01)


def test_the_bar_never_goes_back():
    following = ProgressFeed()
    for percent in (40, 30):
        following.publish([], percent=percent)
    assert following.percent == 40


def test_a_pod_of_the_same_name_that_is_there_is_another_starts():
    following = ProgressFeed()
    following.note_pod_sent({"metadata": {"uid": "old"}})
    assert (following.is_sent, following.former_pod) == (True, "old")
    following.note_pod_sent(None)
    assert following.former_pod == ""


@pytest.mark.parametrize("pod", [{}, {"metadata": None}, {"metadata": {"uid": 1}}])
def test_a_pod_without_a_uid_has_none(pod: dict[str, object]):
    assert read_uid(pod) == ""
