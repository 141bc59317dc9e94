"""Compares files with what they must be: nothing of who is graded runs here."""

import json
from pathlib import Path

WANTED = {
    "colours": [
        {"name": "red", "code": "#ff0000"},
        {"name": "green", "code": "#00ff00"},
        {"name": "blue", "code": "#0000ff"},
    ],
    "people": [
        {"first": "Ada", "last": "Lovelace", "town": "London"},
        {"first": "Zoë", "last": "O'Neill", "town": "Cork, Ireland"},
        {"first": "Grace", "last": "Hopper", "town": "New York"},
    ],
    "prices": [
        {"item": "bolt", "note": "steel", "price": "0.10"},
        {"item": "nut", "note": "", "price": "0.05"},
        {"item": "washer, flat", "note": "out of stock", "price": ""},
    ],
    "quotes": [
        {"who": "Hamlet", "said": "To be, or not to be"},
        {"who": "Yogi", "said": "It ain't over\ntill it's over"},
        {"who": "Anon", "said": 'He said "no" twice'},
    ],
}


def is_right(name):
    try:
        with Path(f"{name}.json").open("rb") as file:
            return json.loads(file.read(1_000_000)) == WANTED[name]
    except (OSError, ValueError, RecursionError):
        return False


right = [name for name in WANTED if is_right(name)]
print("right:", ", ".join(right) or "none")
print(len(right) / len(WANTED))
