"""Kubernetes quantities."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules import quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", "2"),
        ("500m", "0.5"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("4Gi", str(4 * 2**30)),
        ("1M", "1000000"),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        ("1E", str(10**18)),
        ("100n", "0.0000001"),
    ],
)
def test_a_quantity_is_the_number_that_kubernetes_takes_it_for(text: str, number: str) -> None:
    assert quantity.parse(text) == Decimal(number)


@pytest.mark.parametrize(
    "text", ["", "abc", "1 Gi", " 1", "1\n", "-1", "+1", "1K", "1mi", "1GiB", "1,5", "0x10", "١", "1e999999999", "."]
)
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 2, 500m, 4Gi"):
        quantity.parse(text)


@pytest.mark.parametrize(("cores", "text"), [("2", "2"), ("0.5", "500m"), ("1.5", "1500m"), ("0", "0")])
def test_cores_read_as_kubectl_shows_them(cores: str, text: str) -> None:
    assert quantity.text_of_cores(Decimal(cores)) == text


@pytest.mark.parametrize(
    ("size", "text"), [(4 * 2**30, "4Gi"), (1536 * 2**20, "1536Mi"), (2**40, "1Ti"), (1000, "1000"), (0, "0")]
)
def test_bytes_read_in_the_largest_unit_that_leaves_a_whole_number(size: int, text: str) -> None:
    assert quantity.text_of_bytes(Decimal(size)) == text


@given(st.integers(min_value=0, max_value=2**62))
def test_a_size_keeps_its_value_when_it_is_written_and_read_again(size: int) -> None:
    assert quantity.parse(quantity.text_of_bytes(Decimal(size))) == size


@given(st.integers(min_value=0, max_value=10**9))
def test_millicores_keep_their_value_when_they_are_written_and_read_again(milli: int) -> None:
    cores = Decimal(milli) / 1000
    assert quantity.parse(quantity.text_of_cores(cores)) == cores
