import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bilink.errors import RunError
from bilink.models.model import Model
from bilink.models.storage import load_model, save_model


@pytest.fixture
def path(tmp_path):
    model = Model.empty("rescal", 3, 4, 2)
    model.entities[:] = np.arange(12).reshape(4, 3)
    save_model(model, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_a_model_file_can_be_read_with_numpy_alone(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    start, stop = header["entities"]["data_offsets"]
    body = data[8 + length :]
    entities = np.frombuffer(body[start:stop], "<f4").reshape(header["entities"]["shape"])
    assert header["__metadata__"]["model"] == "rescal"
    np.testing.assert_array_equal(entities, np.arange(12).reshape(4, 3))


def test_the_safetensors_library_reads_our_files(path):
    assert load_file(path)["relations"].shape == (2, 9)


@pytest.mark.parametrize("cut", [0, 5, 40, 200, -1])
def test_a_truncated_file_is_refused_with_its_name(path, cut):
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(RunError, match=r"model\.safetensors"):
        load_model(path)


def test_a_foreign_file_is_refused(path):
    save_file({"weights": np.zeros(3)}, path)
    with pytest.raises(RunError, match="foreign file, not a bilink-model"):
        load_model(path)


def test_a_file_of_a_later_version_says_to_upgrade(path):
    header = {"format": "bilink-model", "version": "99", "model": "rescal", "dim": "3"}
    save_file({"entities": np.zeros((4, 3))}, path, metadata=header)
    with pytest.raises(RunError, match="Upgrade bilink"):
        load_model(path)


def test_arrays_that_do_not_fit_the_header_are_refused(path):
    header = {"format": "bilink-model", "version": "1", "model": "rescal", "dim": "3"}
    save_file({"entities": np.zeros((4, 5)), "relations": np.zeros((2, 9))}, path, metadata=header)
    with pytest.raises(RunError, match="has 3 parameters per entity and 9"):
        load_model(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RunError, match="does not exist"):
        load_model(tmp_path / "model.safetensors")
