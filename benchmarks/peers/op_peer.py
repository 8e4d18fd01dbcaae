"""What the peers in Python that run one operator share: the data of peer.h, and how calls are timed and answered."""

import time

import numpy as np


def data(shape, tensor):
    i = np.arange(int(np.prod(shape)), dtype=np.uint32)
    bits = (i * np.uint32(2654435761) + np.uint32(tensor * 40503 + 12345)) >> np.uint32(16) & np.uint32(255)
    return (bits.astype(np.float32) / np.float32(128) - np.float32(1)).reshape(shape)


class TimedOperation:
    """run(repeats) returns the seconds of a call, output() the last result."""

    def facts(self):
        """More words of the answer to prepare."""
        return {}

    def time(self, seconds):
        start = time.perf_counter()
        while True:
            one = self.run()
            if time.perf_counter() - start > 1e-3:
                break
        repeats = max(1, int(100e-6 / max(one, 1e-8) + 1))
        samples = []
        start = time.perf_counter()
        while time.perf_counter() - start < seconds or len(samples) < 3:
            samples.append(self.run(repeats))
        return float(np.median(samples)), repeats * len(samples)


def answer_with(prepare):
    """prepare(fields) makes a tiny operator, whose time is what a call through Python costs, and the one that is asked
    for. Returns what serve() takes."""

    def answer(words, state):
        if words[0] == "prepare":
            fields = dict(w.split("=", 1) for w in words[2:])
            if int(fields.get("bf16", 0)) or not int(fields.get("plain", 1)):
                return {"unsupported": True}
            tiny, operation = prepare(fields)
            state["call"] = min(tiny.time(0.02)[0] for _ in range(3))
            state["operation"] = operation
            y = operation.output().astype(np.float64)
            return {"sum": float(y.sum()), "abs": float(np.abs(y).sum()), **operation.facts()}
        if words[0] == "run" and "operation" in state:
            seconds, calls = state["operation"].time(float(words[1]))
            return {"seconds": max(seconds - state["call"], 1e-9), "calls": calls, "call_seconds": state["call"]}
        return {"error": "not understood or nothing prepared: " + " ".join(words)}

    return answer
