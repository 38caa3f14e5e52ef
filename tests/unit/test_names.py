"""Names are a contract with users' scripts: they are written out here."""

import re

from hypothesis import given
from hypothesis import strategies as st

from modules import names


def test_every_object_is_called_after_the_cluster() -> None:
    assert names.job("mnist", "ps") == "mnist-ps"
    assert names.host("mnist", "ps", 1) == "mnist-ps-1.mnist"
    assert names.config_map("mnist", "0123456789") == "mnist-cluster-0123456789"
    assert names.network_policy("mnist") == "mnist-grpc"


def test_the_longest_hostname_is_that_of_the_last_replica() -> None:
    assert names.longest_hostname("mnist", "worker", 10) == "mnist-worker-9"
    assert names.longest_hostname("mnist", "worker", 11) == "mnist-worker-10"


def test_host_lists_are_called_as_tf_1_programs_expect() -> None:
    assert names.hosts_variable("ps") == "PS_HOSTS"
    assert names.hosts_variable("data-server") == "DATA_SERVER_HOSTS"
    assert names.hosts_key("data-server") == "data-server_hosts"


def test_the_selector_is_part_of_every_label_set() -> None:
    labels = names.labels("mnist", "ps")
    assert names.selector("mnist").items() <= labels.items()
    assert labels["app.kubernetes.io/component"] == "ps"
    assert labels["app.kubernetes.io/managed-by"] == "tfcluster"


_ROLE = st.from_regex(re.compile(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?"), fullmatch=True)


@given(st.lists(_ROLE, unique=True, max_size=8))
def test_different_roles_have_different_variables_keys_and_jobs(roles: list[str]) -> None:
    for name_of in (names.hosts_variable, names.hosts_key, lambda role: names.job("exp", role)):
        assert len({name_of(role) for role in roles}) == len(roles)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_a_content_hash_fits_into_a_name_and_ignores_key_order(content: dict[str, object]) -> None:
    backwards = dict(reversed(content.items()))
    assert re.fullmatch(r"[0-9a-f]{10}", names.content_hash(content))
    assert names.content_hash(content) == names.content_hash(backwards)


def test_different_content_has_a_different_hash() -> None:
    hashes = {names.content_hash({"a": value}) for value in (1, "1", [1], {"1": 1}, None, True)}
    assert len(hashes) == 6
