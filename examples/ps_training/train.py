"""A training with parameter servers (TensorFlow 2), the same program for every role. Copy it and put your model in.

    chief    the coordinator: makes the variables on the parameter servers, hands out steps, says how it goes
    worker   serves: computes the steps that it is handed
    ps       serves: keeps the variables (the built-in server of tfcluster does the same: give `ps` no command)

Who this process is stands in TF_CONFIG. Without it everything happens in this one process: `python train.py`.

The task is a toy that takes seconds: to tell apart two interleaved half moons of noisy points. The exit code is 0 when
the model learned it, 1 when it did not.
"""

import argparse
import itertools
import json
import math
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator

# Before TensorFlow is imported. Without the first line the coordinator gives up when a peer is not there at once.
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors

import tensorflow as tf

POINTS = 4096
BATCH = 128
NOISE = 0.15
HIDDEN = 32
LEARNING_RATE = 0.2
REPORT_EVERY = 100  # steps
SAVE_EVERY = 20.0  # seconds; the most that is lost when the chief has to start again
LOSS_BOUND = 0.15  # chance is 0.69, a straight line gets 0.24; the model gets to 0.04
RETRY = 138  # exit codes from 128 on mean: start me again (restart: exitCode)
PEER_SECONDS = 300.0  # how long a peer may take to come: its image may have to be pulled first


def moons(seed: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Points in the plane, and which half moon each belongs to. The same seed gives the same points."""
    angle = tf.random.stateless_uniform([POINTS], seed=(seed, 0), maxval=math.pi)
    label = tf.round(tf.random.stateless_uniform([POINTS], seed=(seed, 1)))
    # The second half moon is the first one upside down, and moved into its open side.
    side = 1 - 2 * label
    points = tf.stack([label + side * tf.cos(angle), label / 2 + side * tf.sin(angle)], axis=1)
    return points + tf.random.stateless_normal([POINTS, 2], seed=(seed, 2), stddev=NOISE), label


class Model(tf.Module):
    """Two hidden layers. Keras 3 does not support parameter servers, so its variables and steps are our own."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [2, HIDDEN, HIDDEN, 1]
        self.weights = [
            tf.Variable(
                tf.random.stateless_normal([rows, columns], seed=(7, layer)) / math.sqrt(rows), name=f"w{layer}"
            )
            for layer, (rows, columns) in enumerate(itertools.pairwise(sizes))
        ]
        self.biases = [tf.Variable(tf.zeros([size]), name=f"b{layer}") for layer, size in enumerate(sizes[1:])]
        self.step = tf.Variable(tf.constant(0, tf.int64), name="step")

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        """The log-odds of the second half moon."""
        value = points
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            value = tf.nn.tanh(value @ weight + bias)
        return tf.squeeze(value @ self.weights[-1] + self.biases[-1], axis=1)

    def loss(self, points: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=self(points)))

    def train_step(self, batches: Iterator[tuple[tf.Tensor, tf.Tensor]]) -> tf.Tensor:
        """One step of gradient descent on the next batch. Workers do this at the same time, without waiting."""
        points, labels = next(batches)
        with tf.GradientTape() as tape:
            loss = self.loss(points, labels)
        variables = [*self.weights, *self.biases]
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(tf.multiply(LEARNING_RATE, gradient))
        self.step.assign_add(1)
        return loss


def endless_batches() -> tf.data.Dataset:
    """What one worker trains on: each runs this function itself, and shuffles in an order of its own."""
    return tf.data.Dataset.from_tensor_slices(moons(seed=1)).shuffle(POINTS).repeat().batch(BATCH).prefetch(2)


def serve(config: dict) -> None:
    """What a worker or a parameter server does: answer, until the platform ends it."""
    task = config["task"]
    try:
        server = tf.distribute.Server(config["cluster"], job_name=task["type"], task_index=task["index"])
    except tf.errors.OpError as error:
        address = config["cluster"][task["type"]][task["index"]]
        sys.exit(f"{task['type']}/{task['index']} cannot serve at {address}: {error.message.splitlines()[0]}")
    print(f"{task['type']}/{task['index']} serves at {server.target}", flush=True)
    while True:
        signal.pause()  # not server.join(): in there Python sees no signal


def await_peers(cluster: dict[str, list[str]], seconds: float) -> None:
    """Return when every worker and parameter server can be reached; end the program when one does not come."""
    deadline = time.monotonic() + seconds
    for role in ("ps", "worker"):
        for index, address in enumerate(cluster.get(role, [])):
            host, _, port = address.rpartition(":")
            while True:
                try:
                    socket.create_connection((host, int(port)), timeout=5).close()
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        sys.exit(f"{role}/{index} at {address} did not come within {seconds:.0f} s: {error}")
                time.sleep(0.2)


def train(config: dict, steps: int, logdir: str, peer_seconds: float) -> int:
    """What the chief does; the exit code of the program."""
    if config:
        await_peers(config["cluster"], peer_seconds)
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        with strategy.scope():
            model = Model()
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        batches = iter(coordinator.create_per_worker_dataset(endless_batches))
        step = tf.function(model.train_step)

        def run(count: int) -> float:
            # `schedule` returns at once; a step whose worker is lost is done again by another one.
            losses = [coordinator.schedule(step, args=(batches,)) for _ in range(count)]
            coordinator.join()
            return statistics.fmean(loss.fetch() for loss in losses)
    else:
        model = Model()
        batches = iter(endless_batches())
        step = tf.function(model.train_step)

        def run(count: int) -> float:
            return statistics.fmean(step(batches).numpy() for _ in range(count))

    loop(model, run, steps, logdir, device=f"/job:{config['task']['type']}" if config else None)
    points, labels = moons(seed=2)  # other points than those that it was trained on
    loss = float(model.loss(points, labels))
    accuracy = float(tf.reduce_mean(tf.cast(tf.equal(model(points) > 0, labels > 0.5), tf.float32)))
    print(f"final loss {loss:.4f} accuracy {accuracy:.3f}", flush=True)
    return 0 if loss < LOSS_BOUND else 1


def loop(model: Model, run: Callable[[int], float], steps: int, logdir: str, device: str | None) -> None:
    """Train until `steps` are done in all, with a line, a checkpoint and TensorBoard's numbers every so often."""
    # The chief itself writes the files: parameter servers need not see the folder.
    options = tf.train.CheckpointOptions(experimental_io_device=device)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), logdir, max_to_keep=2) if logdir else None
    writer = tf.summary.create_file_writer(logdir) if logdir else None
    if manager and manager.latest_checkpoint:
        manager.checkpoint.restore(manager.latest_checkpoint, options=options)
        print(f"goes on from {manager.latest_checkpoint}", flush=True)
    saved = time.monotonic()
    while (done := int(model.step.numpy())) < steps:
        loss = run(min(REPORT_EVERY, steps - done))
        done = int(model.step.numpy())
        print(f"step {done} loss {loss:.4f}", flush=True)
        if manager and writer:
            with writer.as_default(step=done):
                tf.summary.scalar("loss", loss)
            writer.flush()
            if done >= steps or time.monotonic() - saved > SAVE_EVERY:
                manager.save(checkpoint_number=done, options=options)
                saved = time.monotonic()


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a small model with parameter servers.")
    parser.add_argument("--steps", type=int, default=1200, help="steps of all workers together")
    parser.add_argument("--logdir", default=os.environ.get("LOGDIR", ""), help="folder for checkpoints and TensorBoard")
    parser.add_argument("--peer-seconds", type=float, default=PEER_SECONDS, help="how long to wait for the others")
    given = parser.parse_args()
    # The first process of a container ignores SIGTERM unless it says what to do, and would be waited for.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    if config and config["task"]["type"] in ("worker", "ps"):
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # a servant that is sent home did well
        serve(config)
    try:
        return train(config, given.steps, given.logdir, given.peer_seconds)
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        # A worker's steps are done by another; the variables of a parameter server are gone with it.
        print(f"a parameter server was lost: {error.message.splitlines()[0]}", file=sys.stderr, flush=True)
        os._exit(RETRY)  # at once: TensorFlow would first try to tidy up on the server that is gone


if __name__ == "__main__":
    sys.exit(main())
