"""Objects as YAML for people."""

import yaml

from modules import yaml_text


def test_what_is_written_reads_back_as_it_was() -> None:
    objects = [{"a": "on", "b": ["1", 1, True, None], "c": {"text": "x: y\n# z\n"}}, {"empty": ""}]
    assert list(yaml.safe_load_all(yaml_text.dump(objects))) == objects


def test_the_same_value_twice_is_written_twice_and_not_as_an_anchor() -> None:
    labels = {"app": "x"}
    assert yaml_text.dump([{"one": labels, "two": labels}]) == "one:\n  app: x\ntwo:\n  app: x\n"


def test_scripts_stand_as_blocks_and_numbers_on_one_line() -> None:
    text = yaml_text.dump([{"script": "a\nb\n", "codes": [1, 2, 3], "words": ["a"], "truths": [True]}])
    assert "script: |\n  a\n  b\n" in text
    assert "codes: [1, 2, 3]" in text
    assert "words:\n- a\n" in text
    assert "truths:\n- true\n" in text


def test_keys_keep_their_order_and_letters_their_shape() -> None:
    assert yaml_text.dump([{"b": "ü", "a": 1}]) == "b: ü\na: 1\n"


def test_several_objects_are_several_documents() -> None:
    assert yaml_text.dump([{"a": 1}, {"b": 2}]) == "a: 1\n---\nb: 2\n"
