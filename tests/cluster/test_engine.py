"""The real engine, provider and API server: what `pulumi up` does, what it plans, and what it leaves alone."""

import threading
import time
from typing import Any

import pytest

from tests import real
from tests.real import Engine, eventually, objects

IMAGE = "tfcluster.local/busybox:1"
# A first process ignores SIGTERM unless it says otherwise, and then takes its pod's whole grace period to end.
WAITS = ["sh", "-c", "trap exit TERM; sleep 3600 & wait"]
ENDS = ["true"]


def settings(namespace: str, **more: Any) -> dict[str, Any]:
    roles = {
        "chief": {"command": WAITS},
        "ps": {"command": WAITS},
        "worker": {"replicas": 2, "command": WAITS},
    }
    base = {"context": "tfcluster-local", "namespace": namespace, "name": "mnist", "image": IMAGE, "roles": roles}
    return {**base, **more}


def with_role(base: dict[str, Any], role: str, **changes: Any) -> dict[str, Any]:
    return {**base, "roles": {**base["roles"], role: {**base["roles"][role], **changes}}}


def jobs_by_uid(namespace: str) -> dict[str, str]:
    return {job["metadata"]["uid"]: job["metadata"]["name"] for job in objects("jobs", namespace)}


def test_up_makes_the_objects_and_up_again_changes_nothing(engine: Engine, namespace: str) -> None:
    engine.write("exp", settings(namespace))
    first = engine.up("exp")
    assert first.code == 0, first.text
    made = jobs_by_uid(namespace)
    assert sorted(made.values()) == ["mnist-chief", "mnist-ps", "mnist-worker"]
    assert len(objects("services", namespace)) == 1
    assert len(objects("networkpolicies", namespace)) == 1
    assert engine.planned("exp") == {}
    again = engine.up("exp")
    assert again.code == 0 and "created" not in again.out and "updated" not in again.out, again.text
    assert jobs_by_uid(namespace) == made


def test_outputs_name_the_cluster(engine: Engine, namespace: str) -> None:
    engine.write("exp", settings(namespace))
    assert engine.up("exp").code == 0
    outputs = engine.outputs("exp")
    assert outputs["cluster"]["worker"] == ["mnist-worker-0.mnist:2222", "mnist-worker-1.mnist:2222"]
    assert outputs["jobs"] == {"chief": "mnist-chief", "ps": "mnist-ps", "worker": "mnist-worker"}


def test_a_changed_role_is_planned_as_a_replacement_of_every_job_and_generations_never_overlap(
    engine: Engine, namespace: str
) -> None:
    engine.write("exp", settings(namespace))
    assert engine.up("exp").code == 0
    eventually(lambda: running_pods(namespace) == 4, "the first generation runs")
    old = jobs_by_uid(namespace)

    engine.write("exp", with_role(settings(namespace), "worker", replicas=3))
    planned = engine.planned("exp")
    for role in ("chief", "ps", "worker"):
        assert any(name.endswith(f"Job::mnist-{role}") for name in planned["replace"]), planned
    assert not any("Service" in name or "NetworkPolicy" in name for names in planned.values() for name in names)

    seen, stop = [], threading.Event()
    watcher = threading.Thread(target=watch_generations, args=(namespace, seen, stop))
    watcher.start()
    try:
        changed = engine.up("exp")
    finally:
        time.sleep(2)
        stop.set()
        watcher.join()
    assert changed.code == 0, changed.text
    new = jobs_by_uid(namespace)
    assert set(new).isdisjoint(old)
    assert any(generations <= set(new) for generations in seen), "the watcher saw the new generation"
    mixed = [generations for generations in seen if generations & set(old) and generations - set(old)]
    assert mixed == []


def running_pods(namespace: str) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in objects("pods", namespace))


def watch_generations(namespace: str, seen: list[set[str]], stop: threading.Event) -> None:
    """Notes again and again which Jobs have pods that are not gone."""
    while not stop.is_set():
        owners = {
            owner["uid"] for pod in objects("pods", namespace) for owner in pod["metadata"].get("ownerReferences", [])
        }
        if owners:
            seen.append(owners)
        time.sleep(0.1)


def test_a_raised_run_makes_a_new_generation_of_an_unchanged_experiment(engine: Engine, namespace: str) -> None:
    ending = settings(namespace, roles={"chief": {"command": ENDS}})
    engine.write("exp", ending)
    assert engine.up("exp").code == 0
    old = jobs_by_uid(namespace)
    eventually(lambda: objects("jobs", namespace)[0]["status"].get("succeeded") == 1, "the chief has ended")
    assert engine.planned("exp") == {}, "a finished experiment is not started again by itself"
    engine.write("exp", {**ending, "run": 2})
    assert engine.up("exp").code == 0
    assert set(jobs_by_uid(namespace)).isdisjoint(old)


def test_refresh_in_the_middle_of_a_run_replaces_nothing(engine: Engine, namespace: str) -> None:
    engine.write("exp", settings(namespace))
    assert engine.up("exp").code == 0
    before = jobs_by_uid(namespace)
    refreshed = engine.run("refresh", "--stack", "exp", "--yes", "--skip-preview")
    assert refreshed.code == 0, refreshed.text
    assert "replace" not in engine.planned("exp")
    assert engine.up("exp").code == 0
    assert jobs_by_uid(namespace) == before


def test_up_returns_while_the_image_cannot_be_pulled(engine: Engine, namespace: str) -> None:
    engine.write("exp", settings(namespace, image="tfcluster.local/no-such-image:0"))
    done = engine.up("exp")
    assert done.code == 0, done.text
    eventually(lambda: objects("pods", namespace), "pods exist")
    assert running_pods(namespace) == 0


def test_destroy_leaves_nothing(engine: Engine, namespace: str) -> None:
    engine.write("exp", settings(namespace))
    assert engine.up("exp").code == 0
    gone = engine.destroy("exp")
    assert gone.code == 0, gone.text
    ours = real.kubectl(
        "get", "all,configmaps,networkpolicies", "-n", namespace, "-l", "app.kubernetes.io/name=tfcluster", "-o", "name"
    )
    assert ours.strip() == ""


def test_pods_are_accepted_where_pod_security_restricted_is_enforced(engine: Engine) -> None:
    with real.namespace(pod_security_kubernetes_io__enforce="restricted") as restricted:
        label = real.kubectl("get", "namespace", restricted, "--show-labels")
        assert "enforce=restricted" in label
        engine.write("exp", settings(restricted))
        assert engine.up("exp").code == 0
        eventually(lambda: running_pods(restricted) == 4, "all pods run in a restricted namespace")


@pytest.mark.parametrize("preview", [True, False])
def test_a_wrong_stack_file_is_told_in_one_message_without_a_traceback(
    engine: Engine, namespace: str, preview: bool
) -> None:
    engine.write("exp", {**settings(namespace), "imagee": "x", "roles": {"chief": {"replicas": 0}, "master": {}}})
    done = engine.run("preview", "--stack", "exp") if preview else engine.up("exp")
    assert done.code != 0
    assert "did you mean 'image'?" in done.text
    assert "roles.chief.replicas: must be at least 1 (got 0)" in done.text
    assert "both chief and master" in done.text
    assert "Traceback" not in done.text
    assert objects("jobs", namespace) == []
