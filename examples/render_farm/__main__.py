"""`python -m examples.render_farm`: serve a farm until it is stopped, or until its input ends."""

import argparse
import sys
import threading

from examples.render_farm.server import Server

PORT = 8090
SECONDS = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.render_farm", description=__doc__)
    parser.add_argument("--port", type=int, default=PORT, help=f"0: any (default: {PORT})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long a job takes")
    parser.add_argument(
        "--child", action="store_true", help="end when standard input does: the parent has gone"
    )
    options = parser.parse_args()
    server = Server(options.port, seconds=options.seconds)
    sys.stdout.write(f"The farm listens at {server.url}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        if options.child:
            sys.stdin.read()
        else:
            threading.Event().wait()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
