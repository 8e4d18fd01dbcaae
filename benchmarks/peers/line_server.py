"""A peer's side of the line protocol (peer.h): a line of words in, a line of JSON out."""

import json
import sys


def serve(answer):
    """Answers standard input until it ends or says quit. answer(words, state) returns a dictionary; `state` is one
    that lives as long as the process."""
    state = {}
    for line in sys.stdin:
        words = line.split()
        if not words or words[0] == "quit":
            break
        try:
            reply = answer(words, state)
        except Exception as e:  # of the runtime: part of the answer
            reply = {"error": str(e)[:300]}
        print(json.dumps(reply), flush=True)
