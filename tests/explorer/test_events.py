"""Events that follow each other, and what they amount to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dahgnn.explorer.events import Event, JournalState, NewEvent, NothingToUndoError

ROWS = "abcd"


def event(number, kind="label", rows=("a",), label=None, window="w", undoes=None):
    return Event(
        number=number,
        time=float(number),
        key=str(number),
        window=window,
        kind=kind,
        rows=tuple(rows),
        label=label,
        way="map",
        undoes=undoes,
        predicted=(),
        probability=(),
        model=None,
    )


actions = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["label", "skip", "keep", "undo"]),
        "rows": st.sets(st.sampled_from(ROWS), min_size=1).map(sorted),
        "label": st.sampled_from(["x", "y", None]),
        "window": st.sampled_from(["one", "two"]),
        "gap": st.integers(1, 3),
        "which": st.integers(0, 100),
    }
)


def as_events(drawn):
    """Events from what was drawn; an undo takes back one of the actions that stand, if there are any."""
    events, standing, number = [], [], 0
    for each in drawn:
        number += each["gap"]
        if each["kind"] != "undo":
            events.append(event(number, each["kind"], each["rows"], each["label"], each["window"]))
            standing.append(events[-1])
        elif standing:
            undone = standing.pop(each["which"] % len(standing))
            events.append(event(number, "undo", undone.rows, None, each["window"], undone.number))
    return events


def check_against_definitions(state, events):
    """Every question, answered by reading all events from the first to the last."""
    undone = {each.undoes for each in events}
    stand = [each for each in events if each.kind != "undo" and each.number not in undone]
    assert state.version == (events[-1].number if events else 0)
    assert list(state.recent()) == stand[::-1]
    by_row = {}
    for row in ROWS:
        mine = [each for each in stand if row in each.rows]
        labels = [each for each in mine if each.kind == "label"]
        keeps = [each for each in mine if each.kind == "keep"]
        last = [each for each in mine if each.kind in ("label", "skip")][-1:]
        assert state.label_event(row) == (labels[-1] if labels else None)
        assert state.label(row) == (labels[-1].label if labels else None)
        assert (row in state.skipped) == (bool(last) and last[0].kind == "skip")
        assert (row in state.kept) == bool(keeps)
        assert state.kept.get(row) == (keeps[-1].label if keeps else None)
        all_of_it = [each.number for each in events if row in each.rows]
        assert state.last_event(row) == max(all_of_it, default=0)
        for middle in (each.number for each in events):
            earlier = [each for each in labels if each.number < middle]
            assert state.label_event(row, before=middle) == (earlier[-1] if earlier else None)
        if labels:
            by_row[row] = labels[-1]
    assert dict(state.label_events()) == by_row


@given(st.lists(actions, max_size=12))
def test_event_by_event_it_is_as_if_all_were_read_again(drawn):
    events, state = as_events(drawn), JournalState()
    check_against_definitions(state, [])
    for count, each in enumerate(events, 1):
        state.apply(each)
        check_against_definitions(state, events[:count])


@given(st.lists(actions, max_size=12), st.sampled_from(["one", "two"]), st.integers(0, 20))
def test_conflicts_are_rows_that_another_window_had_last(drawn, window, seen):
    events, state = as_events(drawn), JournalState()
    for each in events:
        state.apply(each)
    expected = []
    for row in ROWS:
        mine = [each for each in events if row in each.rows]
        if mine and mine[-1].number > seen and mine[-1].window != window:
            expected.append(row)
    assert state.conflicts(ROWS, seen, window) == tuple(expected)


def test_the_last_action_of_a_window_is_its_own():
    state = JournalState()
    for each in (event(1, window="one"), event(2, "skip", window="two"), event(3, "keep", window="one")):
        state.apply(each)
    assert [state.last_action(window).number for window in ("one", "two")] == [3, 2]
    state.apply(event(4, "undo", undoes=3, window="two"))
    assert state.last_action("one").number == 1
    with pytest.raises(NothingToUndoError, match="nothing left to undo in this window"):
        state.last_action("three")


@pytest.mark.parametrize(
    ("number", "message"),
    [(7, "There is no event 7"), (2, "Event 2 is an undo"), (1, "Event 1 was undone before")],
)
def test_only_an_action_that_stands_can_be_undone(number, message):
    state = JournalState()
    state.apply(event(1))
    state.apply(event(2, "undo", undoes=1))
    with pytest.raises(NothingToUndoError, match=message):
        state.apply(event(3, "undo", undoes=number))
    assert state.version == 2


def test_events_come_in_order():
    state = JournalState()
    state.apply(event(2))
    with pytest.raises(ValueError, match="Event 2 must come after event 2"):
        state.apply(event(2))


GOOD = {"key": "k", "window": "w", "kind": "label", "rows": ["a", "b"], "label": "x"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "delete"}, "The 'kind' of an event must be one of label, skip, keep, undo. Got 'delete'"),
        ({"key": ""}, "The 'key' of an event must be of 1 to 200 letters. Got 0"),
        ({"window": "w" * 201}, "The 'window' .* Got 201"),
        ({"way": "w" * 201}, "The 'way' .* Got 201"),
        ({"seen": -1}, "The 'seen' of an event must be between 0 and"),
        ({"model": 2**63}, "The 'model' of an event must be between 0 and"),
        ({"rows": []}, "The 'rows' of an event must be none for an undo"),
        ({"kind": "undo"}, "The 'rows' of an event must be none for an undo"),
        ({"undoes": 1}, "The 'undoes' of an event must be None unless"),
        ({"rows": ["a", "a"]}, "The 'rows' of an event must be named once each. Got 1 of them again"),
        ({"predicted": ["x"]}, "The 'predicted' of an event must be of length 2, or none. Got length 1"),
        ({"probability": [0.5]}, "The 'probability' of an event must be of length 2"),
        ({"probability": [0.5, 1.1]}, "The 'probability' of an event must be between 0 and 1. Got 1.1"),
        ({"probability": [float("nan"), 1]}, "The 'probability' .* Got nan"),
    ],
)
def test_nonsense_is_refused_before_it_is_written(change, message):
    NewEvent(**GOOD)
    with pytest.raises(ValueError, match=message):
        NewEvent(**(GOOD | change))
