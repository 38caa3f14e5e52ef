"""The cluster's network on this machine: one bridge, one cable per node, routes, and the way out.

    10.243.0.1        the host on the bridge: API server and DNS
    10.243.0.10+i     node i
    10.244.i.0/24     the pods of node i
    10.96.0.0/16      services

Nodes reach each other's pods directly over the bridge. All routes, for as many nodes as there can be, are set from the
beginning, so that a node that comes or goes changes nothing at the others.

Decided here: addresses, and what of the host's settings is touched (and given back). Not decided here: the inside of a
node (node.py).
"""

import ipaddress
import json
from pathlib import Path

from local import command
from modules.errors import EnvironmentFault

BRIDGE = "tfcluster0"
MAX_NODES = 16

HOST_IP = "10.243.0.1"
NODE_NET = "10.243.0.0/24"
POD_NET = "10.244.0.0/16"
SERVICE_NET = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"  # kubernetes.default.svc: the first of the service network
API_PORT = 6443

_TABLE = "tfcluster"  # of nftables
_MASQUERADE = f"""
table ip {_TABLE}
delete table ip {_TABLE}
table ip {_TABLE} {{
  chain postrouting {{
    type nat hook postrouting priority srcnat
    ip saddr {{ {NODE_NET}, {POD_NET} }} ip daddr != {{ {NODE_NET}, {POD_NET} }} oifname != "{BRIDGE}" masquerade
  }}
}}
"""
# A firewall that drops by default (Docker's, ufw's) has to let the cluster's own bridge pass.
_FIREWALL_RULES = (("INPUT", "-i"), ("FORWARD", "-i"), ("FORWARD", "-o"))
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_ALIAS_MOST = 255  # characters that the kernel keeps of an interface's alias


def node_ip(index: int) -> str:
    return f"10.243.0.{10 + index}"


def pod_range(index: int) -> str:
    return f"10.244.{index}.0/24"


def cable(index: int) -> str:
    """The host's end of a node's cable."""
    return f"tfcnode{index}"


def owner() -> str:
    """Whose bridge stands on this machine: the cluster's folder; "" for none, or for one that was never finished."""
    if not _bridge_exists():
        return ""
    return json.loads(command.output(["ip", "-json", "link", "show", BRIDGE]))[0].get("ifalias", "")


def alias(state: Path) -> str:
    return str(state)[-_ALIAS_MOST:]


def make_bridge(state: Path) -> None:
    """The bridge, the host's routes and the way out; whatever is there already stays."""
    if not _bridge_exists():
        _refuse_taken_addresses()
        command.output(["ip", "link", "add", BRIDGE, "type", "bridge"])
    command.output(["ip", "link", "set", BRIDGE, "alias", alias(state)])
    lines = [f"address replace {HOST_IP}/24 dev {BRIDGE}", f"link set {BRIDGE} up"]
    lines += [
        f"route replace {pod_range(index)} via {node_ip(index)} dev {BRIDGE} onlink"
        for index in range(1, MAX_NODES + 1)
    ]
    command.output(["ip", "-batch", "-"], stdin="\n".join(lines))
    command.output(["nft", "-f", "-"], stdin=_MASQUERADE)
    _forward(state)
    for chain, way in _FIREWALL_RULES:
        rules = _rules(chain)
        if f"-P {chain} DROP" in rules and f"{way} {BRIDGE} " not in rules:
            command.output(["iptables", "--insert", chain, way, BRIDGE, "-j", "ACCEPT"])


def connect(index: int, enter: list[str], node_pid: int) -> None:
    """A node's cable, addresses and routes, seen from inside it as eth0."""
    if not command.succeeds([*enter, "ip", "link", "show", "eth0"]):
        # The same hardware address after a restart, so that no neighbour remembers a wrong one.
        hardware = f"02:74:66:63:00:{index:02x}"
        command.succeeds(["ip", "link", "delete", cable(index)])
        inside = ["name", "eth0", "address", hardware, "netns", str(node_pid)]
        command.output(["ip", "link", "add", cable(index), "type", "veth", "peer", *inside])
    command.output(["ip", "link", "set", cable(index), "master", BRIDGE, "up"])
    lines = ["link set lo up", f"address replace {node_ip(index)}/24 dev eth0", "link set eth0 up"]
    lines.append(f"route replace default via {HOST_IP}")
    lines += [
        f"route replace {pod_range(other)} via {node_ip(other)}" for other in range(1, MAX_NODES + 1) if other != index
    ]
    command.output([*enter, "ip", "-batch", "-"], stdin="\n".join(lines))


def remove(state: Path) -> None:
    """Everything that `make_bridge` and `connect` made on the host, when it is this cluster's."""
    if owner() != alias(state):
        return
    for index in range(1, MAX_NODES + 1):
        if Path(f"/sys/class/net/{cable(index)}").exists():
            command.succeeds(["ip", "link", "delete", cable(index)])  # gone by itself with its node, perhaps just now
    for chain, way in _FIREWALL_RULES:
        if f"{way} {BRIDGE} " in _rules(chain):
            command.succeeds(["iptables", "--delete", chain, way, BRIDGE, "-j", "ACCEPT"])
    command.succeeds(["nft", "delete", "table", "ip", _TABLE])
    before = _forwarding_before(state)
    if before.exists():
        _FORWARDING.write_text(before.read_text())
    # The bridge is last: it is what says that something of this cluster is still here.
    command.output(["ip", "link", "delete", BRIDGE])


def _bridge_exists() -> bool:
    return Path(f"/sys/class/net/{BRIDGE}").exists()


def _refuse_taken_addresses() -> None:
    ours = [ipaddress.ip_network(net) for net in (NODE_NET, POD_NET)]
    for route in json.loads(command.output(["ip", "-json", "-4", "route", "show"])):
        if route["dst"] == "default":
            continue
        taken = ipaddress.ip_network(route["dst"], strict=False)
        if any(taken.overlaps(net) for net in ours):
            raise EnvironmentFault(
                f"the cluster's addresses {NODE_NET} and {POD_NET} are in use here",
                why=f"{route['dst']} is reached through {route.get('dev', '?')}",
                fix="end what uses them, or use another Kubernetes: `kind create cluster`, `context:` in the stack",
            )


def _forward(state: Path) -> None:
    before = _FORWARDING.read_text()
    if before.strip() == "0":
        _forwarding_before(state).parent.mkdir(parents=True, exist_ok=True)
        _forwarding_before(state).write_text(before)
        _FORWARDING.write_text("1\n")


def _forwarding_before(state: Path) -> Path:
    return state / "ip_forward.before"


def _rules(chain: str) -> str:
    """The host's iptables rules in this chain. Asking does not create their tables."""
    try:
        return command.output(["iptables", "-S", chain])
    except EnvironmentFault:  # it has no iptables, or none that work
        return ""
