"""What pymongo does of reads by a random key: arguments are port, database, connections, seconds and the number of records.

Each thread has a client with one connection. Prints the reads and the seconds as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time

import pymongo

_PRIME, _BASIS, _WORD = 1_099_511_628_211, 0xCBF29CE484222325, 1 << 64


def key_of(number: int) -> str:
    """YCSB's name of a record."""
    found = _BASIS
    for octet in number.to_bytes(8, "little"):
        found = (found ^ octet) * _PRIME % _WORD
    return f"user{abs(found - _WORD if found >= _WORD >> 1 else found)}"


def main() -> None:
    """See the module."""
    port, database, connections, seconds, records = (sys.argv[1:] + [""] * 5)[:5]
    done, until = [0] * int(connections), time.monotonic() + float(seconds)

    def read(number: int) -> None:
        client: pymongo.MongoClient[dict[str, str]] = pymongo.MongoClient(
            "127.0.0.1", int(port), maxPoolSize=1, directConnection=True
        )
        table, draw = client[database]["usertable"], random.Random(number)
        while time.monotonic() < until or not done[number]:
            found = table.find_one({"_id": key_of(draw.randrange(int(records)))})
            if found is None or len(found) != 11:
                raise RuntimeError(f"a record that is none: {found}")
            done[number] += 1

    threads = [threading.Thread(target=read, args=(number,)) for number in range(int(connections))]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not all(done):
        sys.exit("a reader has failed")
    json.dump({"ok": sum(done), "wall_s": time.monotonic() - begun}, sys.stdout)


if __name__ == "__main__":
    main()
