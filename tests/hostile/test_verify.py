"""`msforensics verify` names each dataset that is damaged, and no other."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest
from click.testing import CliRunner

from forensics.cli import main
from tests.hostile.corpus import sound


def places(path: Path) -> dict[str, int]:
    """Each dataset, and where in the file its elements begin."""
    found: dict[str, int] = {}

    def look(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.size:
            chunk = item.id.get_chunk_info(0).byte_offset if item.chunks else item.id.get_offset()
            found[f"/{name}"] = chunk

    with h5py.File(path) as file:
        file.visititems(look)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_each_dataset_by_its_name(tmp_path: Path, seed: int) -> None:
    path = sound(tmp_path / "b.h5")
    everywhere = places(path)
    assert len(everywhere) > 100
    damaged = sorted(everywhere)[seed::7]
    data = bytearray(path.read_bytes())
    for name in damaged:
        data[everywhere[name]] ^= 1 << seed
    path.write_bytes(bytes(data))
    result = CliRunner().invoke(main, ["verify", str(path)])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert sorted(line.partition(": ")[0] for line in lines[:-1]) == damaged
    assert all("its checksum is" in line for line in lines[:-1])
    assert lines[-1].startswith(f"{len(damaged)} of {len(everywhere)} datasets are damaged")
