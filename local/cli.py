"""The `tfcluster local …` calls: a real Kubernetes on this machine, and the tools for it.

Decided here: the words of these calls. What they do is in build.py, cluster.py, image.py and session.py, imported late.
"""

import argparse
from pathlib import Path


def add_calls(parser: argparse.ArgumentParser) -> None:
    calls = parser.add_subparsers(metavar="CALL", required=True)

    build = calls.add_parser("build", help="fetch or build Pulumi, its Kubernetes provider and Kubernetes itself")
    build.add_argument("groups", nargs="*", metavar="GROUP", help="pulumi, kubernetes, coredns, kwok; default: all")
    build.set_defaults(handler=_build)

    up = calls.add_parser("up", help="start the cluster, or repair what died")
    up.add_argument("--nodes", type=_positive, metavar="N", help="how many nodes (default 1, or what runs)")
    up.add_argument("--gpus", type=_not_negative, metavar="G", help="GPUs that each node pretends to have")
    up.add_argument("--control-plane-only", action="store_true", help="no nodes, no root: the API and its controllers")
    up.add_argument("--kwok", type=_not_negative, metavar="N", help="N more nodes that exist in the API only")
    up.set_defaults(handler=_up)

    calls.add_parser("down", help="stop the cluster and remove its state").set_defaults(handler=_down)

    status = calls.add_parser("status", help="health and memory of each part")
    status.add_argument("-o", "--output", choices=("table", "json"), default="table")
    status.set_defaults(handler=_status)

    image = calls.add_parser("image", help="make a TensorFlow image and put it on every node")
    image.add_argument("--requirements", type=Path, metavar="FILE", help="more Python packages for the image")
    image.add_argument("--name", metavar="NAME:TAG", help="name of the image; needed with --requirements")
    image.set_defaults(handler=_image)

    env = calls.add_parser("env", help='print exports for a shell: eval "$(./tfcluster local env)"')
    env.set_defaults(handler=_env)

    pulumi = calls.add_parser("pulumi", help="run pulumi with that environment, e.g. `local pulumi preview -s local`")
    pulumi.add_argument("arguments", nargs=argparse.REMAINDER)
    pulumi.set_defaults(handler=_pulumi)

    train = calls.add_parser("train", help="everything: tools, cluster, image, pulumi up, and a live view to the end")
    train.add_argument("-s", "--stack", default="local", help="which stack (default: local)")
    train.set_defaults(handler=_train)

    clear = calls.add_parser("clear", help="pulumi destroy, then stop the cluster")
    clear.add_argument("-s", "--stack", default="local", help="which stack (default: local)")
    clear.set_defaults(handler=_clear)


def _positive(text: str) -> int:
    return _whole_number(text, at_least=1)


def _not_negative(text: str) -> int:
    return _whole_number(text, at_least=0)


def _whole_number(text: str, at_least: int) -> int:
    if not text.isdecimal() or int(text) < at_least:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least {at_least} (got '{text}')")
    return int(text)


def _build(given: argparse.Namespace) -> int:
    from local import build

    build.build(tuple(given.groups))
    return 0


def _up(given: argparse.Namespace) -> int:
    from local import cluster

    cluster.up(given.nodes, given.gpus, given.control_plane_only, given.kwok)
    return 0


def _down(_given: argparse.Namespace) -> int:
    from local import cluster

    cluster.down()
    return 0


def _status(given: argparse.Namespace) -> int:
    from local import cluster

    return cluster.show_status(given.output)


def _image(given: argparse.Namespace) -> int:
    from local import image

    return image.main(given.requirements, given.name)


def _env(_given: argparse.Namespace) -> int:
    from local import session

    print(session.exports())
    return 0


def _pulumi(given: argparse.Namespace) -> int:
    from local import session

    return session.pulumi(given.arguments)


def _train(given: argparse.Namespace) -> int:
    from local import session

    return session.train(given.stack)


def _clear(given: argparse.Namespace) -> int:
    from local import session

    return session.clear(given.stack)
