"""Events for all windows."""

import asyncio
import json
import threading

from dahgnn.explorer.broadcast import Broadcast


def heard(count, act):
    """Return the first events that two listeners hear of what ``act`` does in a thread."""

    async def run():
        broadcast = Broadcast()
        streams = [broadcast.listen() for _ in range(2)]
        firsts = [await anext(stream) for stream in streams]
        assert firsts == ["retry: 1000\n\n"] * 2
        thread = threading.Thread(target=act, args=(broadcast,))
        thread.start()
        found = [[await anext(stream, None) for _ in range(count)] for stream in streams]
        thread.join()
        for stream in streams:
            await stream.aclose()
        return found

    return asyncio.run(run())


def test_every_window_hears_every_event_in_order():
    found = heard(3, lambda each: [each.publish("label", {"event": number}) for number in range(3)])
    assert found[0] == found[1] == [f'event: label\ndata: {{"event": {number}}}\n\n' for number in range(3)]


def test_text_of_the_data_cannot_end_an_event():
    (event,), _ = heard(1, lambda each: each.publish("notice", {"text": "a\n\nevent: x\u202e"}))
    assert event.count("\n") == 3
    assert json.loads(event.split("data: ")[1]) == {"text": "a␊␊event: x[U+202E]"}


def test_streams_end_when_the_program_does():
    assert heard(2, lambda each: [each.publish("a", {}), each.close()])[0][1] is None
