"""A process that calls `verbs.py` as its standard input says: it stands for a web process.

One JSON line in, `[verb, {arguments}]`, one JSON line out. Started by `stations.py`.
"""

import json
import sys

import django


def main() -> None:
    django.setup()
    from tests.acceptance.verbs import VERBS

    for line in sys.stdin:
        verb, arguments = json.loads(line)
        sys.stdout.write(json.dumps(VERBS[verb](**arguments)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
