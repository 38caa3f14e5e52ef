"""Every version of everything that is fetched or built, in one place.

Decided here: which version we make ourselves, and which version of someone else's serves as well. The Go modules under
local/go/ carry the same versions in their go.mod; a unit test compares the two, and requirements.txt.
"""

PULUMI = "3.259.0"  # the engine; equals the SDK in requirements.txt
PULUMI_MINIMUM = "3.200.0"  # a user's own Pulumi serves from here on (Pulumi.yaml: requiredPulumiVersion)
LANGUAGE_HOST = "3.184.0"  # newest that compiles from published modules; speaks to the engine above
KUBERNETES_PROVIDER = "4.25.0"  # equals pulumi-kubernetes in requirements.txt

KUBERNETES = "1.36.3"
ETCD = "3.6.8"  # the version that Kubernetes 1.36 is tested with
COREDNS = "1.15.0"
KWOK = "0.8.0"
COREDNS_MINIMUM = "1.11.0"  # first that serves EndpointSlices with the options that our Corefile uses
KWOK_MINIMUM = "0.8.0"  # stages and flags as written in our kwok configuration

GO_MINIMUM = "1.26"  # the `go` line of our modules
GO_WHEEL = "1.26.6"  # the compiler we bring when PATH has none; hashes in local/go/toolchain.txt


def numbers(version: str) -> tuple[int, ...]:
    """`v1.36.3-rc.1+x` as (1, 36, 3): what versions are compared by."""
    core = version.strip().lstrip("v").split("+")[0].split("-")[0]
    return tuple(int(part) for part in core.split(".") if part.isdigit())


def minor(version: str) -> tuple[int, ...]:
    return numbers(version)[:2]
