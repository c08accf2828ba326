from __future__ import annotations

from gpuspawner.settings.profiles.notes import (
    ACCESS_KEY,
    CPU_ROUNDED,
    SAME_SLUG,
    Effect,
    NoteList,
    format_notes,
    group_notes,
)


def test_notes_are_grouped_by_cause_with_the_worst_last():
    notes = NoteList()
    notes.add(ACCESS_KEY, profile="A", field="roles")
    notes.add(SAME_SLUG, profile="B")
    notes.add(CPU_ROUNDED, profile="A", field="cpu_limit", detail="0.0005 → 0.001")
    notes.add(CPU_ROUNDED, profile="A", field="cpu_limit", detail="0.0005 → 0.001")
    assert [cause.effect for cause in group_notes(notes.notes)] == [Effect.NOTE, Effect.DIFFERS, Effect.REFUSED]
    assert list(format_notes(notes.notes)) == [
        f"note: cpu-rounded: {CPU_ROUNDED.text}",
        "  - A: cpu_limit: 0.0005 → 0.001",
        f"differs: same-slug: {SAME_SLUG.text}",
        "  - B",
        f"refused: access-key: {ACCESS_KEY.text}",
        "  - A: roles",
    ]


def test_only_some_places_of_many_are_listed():
    notes = NoteList()
    for number in range(11):
        notes.add(SAME_SLUG, profile=f"P{number}")
    assert list(format_notes(notes.notes))[-2:] == ["  - P7", "  - and 3 more"]
