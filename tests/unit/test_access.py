"""Which cluster a stack means, and what is said when it cannot be had. Loopback only."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from local import paths
from modules import access, probe
from modules.access import Access, NamespaceMissing, reach
from modules.errors import EnvironmentFault
from tests import loopback

Use = Callable[..., Path]


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Makes a kubeconfig for a server the user's own. The question is asked in this process, where that is enough."""
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr(access, "_asked", _asked_here)

    def write(server: str, **how: Any) -> Path:
        return loopback.kubeconfig(tmp_path / "kubeconfig", server, **how)

    return write


_asked_in_a_process = access._asked


def _asked_here(reached: Access, namespace: str) -> dict[str, Any]:
    return probe.answer(reached.kubeconfig, reached.context or "", namespace)


@pytest.fixture
def real_process(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """The question is asked by a process of its own, as for a user."""
    monkeypatch.setattr(access, "_asked", _asked_in_a_process)


@pytest.fixture
def quick(real_process: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Little patience, so that waiting for silence takes no five seconds."""
    monkeypatch.setattr(access, "TIMEOUT_SECONDS", 0.5)


@pytest.fixture
def serving() -> Iterator[loopback.ApiServer]:
    with loopback.api_server() as server:
        yield server


def both(context: str | None = None, namespace: str = "train") -> tuple[EnvironmentFault, Access]:
    """How an update and a preview end when the cluster cannot be had."""
    with pytest.raises(EnvironmentFault) as caught:
        reach(context, namespace, preview=False)
    previewed = reach(context, namespace, preview=True)
    (warning,) = previewed.warnings
    assert warning.startswith(str(caught.value)), "preview and update say the same"
    assert warning.count("Not checked in this preview") == 1
    return caught.value, previewed


# --- a cluster that serves --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("real_process")
@pytest.mark.parametrize("preview", [True, False])
def test_a_cluster_that_serves_is_asked_once_for_the_namespace(
    use: Use, serving: loopback.ApiServer, preview: bool
) -> None:
    kubeconfig = use(serving.url)
    reached = reach(None, "train", preview=preview)
    assert reached == Access("there", str(kubeconfig), serving.url)
    assert serving.asked == [("/api/v1/namespaces/train", "Bearer secret")]


def test_a_context_is_looked_for_by_its_name(use: Use, serving: loopback.ApiServer) -> None:
    use(serving.url, contexts=("first", "second"))
    assert reach("second", "train", preview=False).context == "second"
    assert reach(None, "train", preview=False).context == "first"


def test_who_may_not_read_namespaces_may_still_deploy(use: Use) -> None:
    with loopback.api_server(status=403) as server:
        use(server.url)
        assert reach(None, "train", preview=False).warnings == ()


def test_the_embedded_cluster_has_a_kubeconfig_of_its_own(use: Use, serving: loopback.ApiServer) -> None:
    use(loopback.refusing_server(), contexts=(paths.LOCAL_CONTEXT,))
    own = loopback.kubeconfig(paths.kubeconfig(), serving.url, contexts=(paths.LOCAL_CONTEXT,))
    reached = reach(paths.LOCAL_CONTEXT, "train", preview=False)
    assert reached == Access(paths.LOCAL_CONTEXT, str(own), serving.url, embedded=True)


def test_kubeconfig_may_be_a_list_of_files(
    use: Use, serving: loopback.ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = use(loopback.refusing_server(), contexts=("first",))
    second = loopback.kubeconfig(tmp_path / "second", serving.url, contexts=("second",))
    second.write_text(
        second.read_text().replace("name: cluster", "name: other").replace("cluster: cluster", "cluster: other")
    )
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'nowhere'}:{second}")
    assert reach("second", "train", preview=False).server == serving.url


# --- a cluster that answers, but does not serve -----------------------------------------------------------------------


def test_credentials_that_are_refused_are_said_to_be(use: Use) -> None:
    with loopback.api_server(status=401) as server:
        use(server.url)
        fault, previewed = both()
        assert str(fault) == (
            f"the cluster refuses the credentials: context 'there', server {server.url}\n"
            "  fix: log in to the cluster again"
        )
        assert previewed.silent, "the provider need not try for long"


def test_a_missing_namespace_comes_with_the_command_that_makes_it(use: Use) -> None:
    with loopback.api_server(status=404) as server:
        use(server.url)
        fault, previewed = both()
        assert isinstance(fault, NamespaceMissing)
        assert "there is no namespace 'train': context 'there', server http://127.0.0.1:" in str(fault)
        assert "fix: kubectl create namespace train" in str(fault)
        assert not previewed.silent, "it answers"


def test_any_other_answer_is_passed_on(use: Use) -> None:
    with loopback.api_server(status=503) as server:
        use(server.url)
        fault, _ = both()
        assert f"the cluster answers 503 Service Unavailable: context 'there', server {server.url}" in str(fault)


# --- a cluster that does not answer -----------------------------------------------------------------------------------


def test_a_refused_connection_names_context_and_server(use: Use) -> None:
    server = loopback.refusing_server()
    use(server)
    fault, previewed = both()
    assert f"the cluster cannot be reached: context 'there', server {server}" in str(fault)
    assert "why: [Errno 111] Connection refused" in str(fault)
    assert "fix: check the network, VPN or tunnel to the cluster" in str(fault)
    assert (previewed.context, previewed.server, previewed.silent) == ("there", server, True)


@pytest.mark.usefixtures("quick")
def test_a_cluster_that_never_answers_is_given_up_at_the_deadline(use: Use) -> None:
    with loopback.silent_server() as server:
        use(server)
        with pytest.raises(EnvironmentFault) as caught:
            reach(None, "train", preview=False)
        assert f"the cluster does not answer within 0.5 s: context 'there', server {server}" in str(caught.value)


def test_the_embedded_cluster_that_is_down_is_started_and_not_searched_for(use: Use) -> None:
    use("http://127.0.0.1:1")
    loopback.kubeconfig(paths.kubeconfig(), loopback.refusing_server(), contexts=(paths.LOCAL_CONTEXT,))
    fault, _ = both(paths.LOCAL_CONTEXT)
    assert f"fix: {access.START_LOCAL}" in str(fault)


def test_a_host_that_does_not_exist_is_said_to_be_unreachable(use: Use) -> None:
    use("http://no-such-host.invalid:6443")
    fault, _ = both()
    assert "server http://no-such-host.invalid:6443" in str(fault)


# --- a kubeconfig that leads nowhere ----------------------------------------------------------------------------------


def test_an_unknown_context_comes_with_those_that_are_there(use: Use) -> None:
    path = use("http://127.0.0.1:1", contexts=("one", "two"))
    fault, previewed = both("three")
    assert str(fault) == f"context 'three' is not in the kubeconfig: {path}\n  fix: known there: one, two"
    assert previewed.context == "three"


def test_the_embedded_cluster_that_never_was_is_started(use: Use) -> None:
    use("http://127.0.0.1:1")
    fault, _ = both(paths.LOCAL_CONTEXT)
    assert str(fault).startswith(f"the embedded cluster is not running (context '{paths.LOCAL_CONTEXT}')")
    assert f"fix: {access.START_LOCAL}" in str(fault)


@pytest.mark.parametrize("content", [None, "", "[]", "a: [", "text", "contexts: []", "contexts: [{name: a}]"])
def test_a_kubeconfig_that_cannot_serve_is_named(use: Use, tmp_path: Path, content: str | None) -> None:
    path = use("http://127.0.0.1:1")
    path.unlink() if content is None else path.write_text(content)
    fault, previewed = both()
    assert str(tmp_path / "kubeconfig") in str(fault)
    assert previewed.silent


def test_a_context_whose_cluster_is_not_there_is_a_fault(use: Use) -> None:
    path = use("http://127.0.0.1:1")
    content = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**content, "clusters": []}))
    fault, _ = both()
    assert "no cluster 'cluster' in it" in str(fault)


def test_a_kubeconfig_without_a_current_context_asks_for_one(use: Use) -> None:
    path = use("http://127.0.0.1:1", contexts=("one", "two"))
    path.write_text(path.read_text().replace("current-context: one\n", ""))
    fault, _ = both()
    assert str(fault) == (
        f"the kubeconfig has no current context: {path}\n"
        "  fix: name one in the stack (`context:`); known there: one, two"
    )


def test_a_client_certificate_that_is_no_base64_is_a_fault(use: Use) -> None:
    use("https://127.0.0.1:1", user={"client-certificate-data": "#", "client-key-data": "#"})
    fault, _ = both()
    assert "context 'there'" in str(fault)


# --- credential helpers -----------------------------------------------------------------------------------------------


def helper(script: str) -> dict[str, Any]:
    """A user whose credentials come from a shell script."""
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": "sh", "args": ["-c", script], "interactiveMode": "Never"}}


def test_a_helper_gives_the_credentials(use: Use, serving: loopback.ApiServer) -> None:
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-helper"}}'
    use(serving.url, user=helper(f"echo '{answer}'"))
    reach(None, "train", preview=False)
    assert serving.asked == [("/api/v1/namespaces/train", "Bearer from-helper")]


@pytest.mark.parametrize(
    ("user", "why"),
    [
        (helper("echo please log in >&2; exit 3"), "exec: process returned 3. please log in"),
        (helper("echo nonsense"), "exec: failed to decode process output"),
        ({"exec": {"apiVersion": "v1", "command": "/no/such/helper"}}, "No such file or directory: '/no/such/helper'"),
    ],
)
def test_a_helper_that_fails_is_a_fault_and_the_cluster_is_not_asked_without_credentials(
    use: Use, serving: loopback.ApiServer, user: dict[str, Any], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = use(serving.url, user=user)
    fault, _ = both()
    assert str(fault).startswith(f"the credentials of context 'there' cannot be used: {path}\n  why: ")
    assert why in str(fault)
    assert serving.asked == []
    assert "ERROR:root" not in capfd.readouterr().err, "it is said once, by us"


@pytest.mark.usefixtures("quick")
def test_a_helper_that_hangs_is_given_up_at_the_deadline(use: Use, serving: loopback.ApiServer, tmp_path: Path) -> None:
    use(serving.url, user=helper(f"while [ ! -e {tmp_path}/end ]; do sleep 0.1; done"))
    try:
        with pytest.raises(EnvironmentFault) as caught:
            reach(None, "train", preview=False)
    finally:
        (tmp_path / "end").touch()
    assert f"the cluster does not answer within 0.5 s: context 'there', server {serving.url}" in str(caught.value)
    assert serving.asked == []


def test_looking_for_a_context_runs_no_helper(use: Use, tmp_path: Path) -> None:
    use("http://127.0.0.1:1", user=helper(f"touch {tmp_path}/ran; exit 1"))
    assert access.find("there").server == "http://127.0.0.1:1"
    assert not (tmp_path / "ran").exists()
