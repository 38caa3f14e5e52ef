"""The order in which a cluster comes up, and in which it changes its size.

    certificates → bridge → etcd → API server, and beside it the nodes' containerd → everything that talks to the API

Decided here: that order, and that a part which runs with its present settings is left alone. Not decided here: how a
part runs (control_plane.py, node.py, node_daemons.py, kwok.py).
"""

from collections.abc import Iterable
from dataclasses import replace

from local import (
    api,
    config,
    control_plane,
    daemon,
    identities,
    kubeconfig,
    kwok,
    network,
    node,
    node_daemons,
    paths,
    store,
)
from local.api import Api
from local.config import Config
from local.daemon import Daemon, Started
from local.node import Node
from local.progress import Progress, Step
from local.site import Site
from local.tools import Toolchain
from modules.errors import EnvironmentFault

_READY_SECONDS = 180.0


class Start:
    """One run of `up`. `started` says of every part whether it was kept, started or restarted."""

    def __init__(self, wanted: Config, toolchain: Toolchain, progress: Progress) -> None:
        self._progress = progress
        self._running = daemon.running(paths.cluster())
        settled = config.with_free_ports(wanted, {one.name for one in self._running})
        settled.save()
        self._site = Site(settled, toolchain.path)
        self.started: list[Started] = []

    def run(self) -> None:
        try:
            self._run()
        except api.FAILURES as failure:
            raise EnvironmentFault(
                "the API server does not do what the cluster asks of it",
                why=api.in_words(failure),
                fix=f"try again: ./tfcluster local up; its log: {control_plane.api_server(self._site).log}",
            ) from failure

    def _run(self) -> None:
        wanted = self._site.config
        with self._progress.step("control plane") as step:
            step.note("certificates")
            self._site.pki.issue(identities.all_of(wanted))
            self._write_kubeconfigs()
            if wanted.nodes:
                network.make_bridge(self._site.state)
            step.note("etcd")
            self._start_etcd()
            api_server = self._have(control_plane.api_server(self._site))
            # While it gathers itself, the nodes make their namespaces and link their images.
            nodes = [self._enterable(node.at(index), step) for index in range(1, wanted.nodes + 1)]
            runtimes = [self._have(node_daemons.containerd(self._site, one)) for one in nodes]
            step.note("API server")
            api_server.wait()
            step.note("controllers")
            server = Api(paths.kubeconfig())
            server.grant_rights()
            _wait([self._have(one) for one in controllers(self._site)], step)
        if nodes:
            with self._progress.step("nodes") as step:
                step.note("containerd")
                _wait(runtimes, step)
                self._start_kubelets(nodes, server, step)
        self._set_fakes(server)
        self._drop_surplus(server)

    def _have(self, wanted: Daemon) -> Started:
        started = Started(wanted, self._running)
        self.started.append(started)
        return started

    def _write_kubeconfigs(self) -> None:
        site = self._site
        kubeconfig.write(paths.kubeconfig(), site.pki, identities.ADMIN, site.server)
        for name in identities.with_kubeconfig(site.config):
            kubeconfig.write(site.kubeconfig_of(name), site.pki, name, site.server)

    def _start_etcd(self) -> None:
        """etcd, with what it remembers. When that is nothing, nothing else may remember more."""
        empty = not control_plane.has_data(self._site)
        started, broken = control_plane.start_etcd(self._site, self._running)
        self.started.append(started)
        if broken:
            self._progress.say(f"warning: etcd could not read its data; they are set aside as {broken}")
            self._progress.say("the cluster is empty now: deploy your stacks again (pulumi refresh, then pulumi up)")
        if empty or broken:
            self._site = replace(self._site, config=self._site.config.anew())
            self._site.config.save()

    def _enterable(self, wanted: Node, step: Step) -> Node:
        """A node whose first process runs, connected, with images in its folder."""
        step.note(f"images for {wanted.name}")
        node.prepare(wanted)
        # Before its first process, which mounts the folder that this may replace.
        store.seed(wanted.containerd_root)
        self._have(node.init(self._site, wanted)).wait()
        there = wanted.found_in(daemon.running(self._site.state))
        network.connect(there.index, there.enter([]), there.pid)
        return there

    def _start_kubelets(self, nodes: list[Node], server: Api, step: Step) -> None:
        for one in nodes:
            server.declare_node(one.name, network.pod_range(one.index))
        step.note("kubelets")
        kubelets = [node_daemons.kubelet(self._site, one) for one in nodes]
        proxies = [node_daemons.kube_proxy(self._site, one) for one in nodes]
        _wait([self._have(one) for one in (*kubelets, *proxies)], step)
        step.note("ready")
        server.wait_ready([one.name for one in nodes], _READY_SECONDS, lambda ready: step.far(ready, len(nodes)))
        for one in nodes:
            server.claim_gpus(one.name, self._site.config.gpus)

    def _set_fakes(self, server: Api) -> None:
        wanted = self._site.config
        if not wanted.kwok:
            server.set_fakes(0, beside_real_ones=bool(wanted.nodes))
            return
        with self._progress.step("kwok nodes") as step:
            _wait([self._have(kwok.controller(self._site))], step)
            server.set_fakes(
                wanted.kwok, beside_real_ones=bool(wanted.nodes), far=lambda done: step.far(done, wanted.kwok, "nodes")
            )

    def _drop_surplus(self, server: Api) -> None:
        """Nodes beyond the number that is wanted, and other parts that are not wanted any more."""
        for surplus in node.beyond(self._site.config.nodes):
            with self._progress.step(f"node {surplus.name} leaves") as step:
                step.note("its pods end")
                server.empty_node(surplus.name)
                server.remove_node(surplus.name)
                daemon.stop([one for one in self._running if one.name == node.init_name(surplus)], grace=0)
                node.remove(surplus)
        expected = {started.daemon.name for started in self.started}
        daemon.stop(one for one in daemon.running(self._site.state) if one.name not in expected)


def controllers(site: Site) -> list[Daemon]:
    """What stands beside the API server and talks to it, on this machine."""
    found = [control_plane.controller_manager(site), control_plane.scheduler(site)]
    if site.config.nodes:
        found.append(control_plane.dns(site))
    return found


def everything(site: Site, nodes: Iterable[Node]) -> list[Daemon]:
    """Every part that a cluster with this configuration has."""
    found = [control_plane.etcd(site), control_plane.api_server(site), *controllers(site)]
    if site.config.kwok:
        found.append(kwok.controller(site))
    for one in nodes:
        found += [
            node.init(site, one),
            node_daemons.containerd(site, one),
            node_daemons.kubelet(site, one),
            node_daemons.kube_proxy(site, one),
        ]
    return found


def _wait(parts: list[Started], step: Step) -> None:
    for number, part in enumerate(parts):
        step.far(number, len(parts), "healthy")
        part.wait()
    step.far(len(parts), len(parts), "healthy")
