"""`python -m benchyard.gateway FOLDER` starts the gateway of a folder, and returns when it listens."""

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from benchyard.gateway.process import complain, start
from benchyard.gateway.protocol import GatewayOptions


def main() -> int:
    """Start the gateway of the folder named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchyard.gateway")
    parser.add_argument("folder", type=Path)
    for field in fields(GatewayOptions):
        parser.add_argument(f"--{field.name}", type=float, default=field.default)
    options = vars(parser.parse_args())
    try:
        return start(options.pop("folder").absolute(), GatewayOptions(**options))
    except OSError as error:
        return complain(error)


if __name__ == "__main__":
    sys.exit(main())
