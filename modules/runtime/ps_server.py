"""The built-in parameter server: what a `ps` without a command of its own runs, inside the image of the training.

It reads TF_CONFIG (or the file that TF_CONFIG_FILE names), opens TensorFlow's server for its own task and serves until
SIGTERM, with whichever TensorFlow the image has: 1.x or 2.x. Nothing but the standard library and TensorFlow is
imported, and the syntax is that of Python 3.6, which the last images of TensorFlow 1 have.
"""

import json
import os
import signal
import sys

USAGE_FAULT = 2  # a permanent failure: starting again would not help


class Fault(Exception):
    """Why there is no server, in one line."""


def read_config(environ):
    """The cluster, and the job and index of this task in it."""
    path = environ.get("TF_CONFIG_FILE")
    text = environ.get("TF_CONFIG")
    if not text and path:
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 - as every Python has it
                text = file.read()
        except OSError as error:
            raise Fault(f"TF_CONFIG_FILE cannot be read: {error}") from None
    if not text:
        raise Fault("neither TF_CONFIG nor TF_CONFIG_FILE is set: a parameter server needs to know its cluster")
    try:
        config = json.loads(text)
        cluster, job, index = config["cluster"], config["task"]["type"], int(config["task"]["index"])
        address = cluster[job][index]
    except ValueError as error:
        raise Fault(f"TF_CONFIG is not valid: {error}") from None
    except (KeyError, IndexError, TypeError):
        raise Fault(
            "TF_CONFIG must have cluster, task.type and task.index, and the task must be in the cluster"
        ) from None
    return cluster, job, index, address


def load_tensorflow():
    try:
        import tensorflow
    except ImportError as error:
        raise Fault(f"this image has no TensorFlow that can be imported ({error}); give the role a command") from None
    return tensorflow


def open_server(tensorflow, cluster, job, index, address):
    """A server that answers in threads of its own."""
    kind = getattr(getattr(tensorflow, "distribute", None), "Server", None) or tensorflow.train.Server
    try:
        return kind(tensorflow.train.ClusterSpec(cluster), job_name=job, task_index=index)
    except Exception as error:
        raise Fault(f"no server at {address}: {reason(error)}") from None


def reason(error):
    """TensorFlow's errors have many lines; the first says it."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    if "Could not start gRPC server" in first:
        return "its port cannot be opened; is it in use (hostNetwork, a second server)?"
    return first


def main():
    # Set before TensorFlow is loaded, which takes seconds. As the first process of a container it would otherwise
    # ignore SIGTERM, and each end of a training would wait for the grace period. No clean-up: threads of gRPC may hang.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # Variables live in main memory: without this every server would take all memory of a GPU that it sees.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors
    try:
        cluster, job, index, address = read_config(os.environ)
        server = open_server(load_tensorflow(), cluster, job, index, address)
    except Fault as fault:
        print(f"ps_server: {fault}", file=sys.stderr, flush=True)
        return USAGE_FAULT
    print(f"ps_server: {job}/{index} serves at {server.target}", flush=True)
    while True:
        signal.pause()  # not server.join(): in there Python sees no signal


if __name__ == "__main__":
    sys.exit(main())
