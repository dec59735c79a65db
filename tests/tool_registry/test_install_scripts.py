"""A package that would run code while it is installed: nothing of it runs."""

import asyncio
import io
import json
import shutil
import subprocess
import tarfile

import pytest

from tool_registry.source import Bench
from tool_registry.sources import npm


@pytest.fixture
def packed(tmp_path):
    """A package whose scripts leave a file behind; gives the archive and the file."""
    left = tmp_path / "left-behind"
    scripts = dict.fromkeys(("preinstall", "install", "postinstall"), f"touch '{left}'")
    manifest = json.dumps({"name": "harmful", "version": "1.0.0", "scripts": scripts}).encode()
    archive = tmp_path / "harmful-1.0.0.tgz"
    with tarfile.open(archive, "w:gz") as file:
        info = tarfile.TarInfo("package/package.json")
        info.size = len(manifest)
        file.addfile(info, io.BytesIO(manifest))
    return archive, left


@pytest.mark.claim("b14")
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_scripts_of_a_package_do_not_run_while_it_is_installed(packed, tmp_path):
    archive, left = packed
    folder = tmp_path / "installed"
    asyncio.run(npm._install(shutil.which("npm"), folder, str(archive), Bench(cache=tmp_path)))
    assert (folder / "node_modules" / "harmful" / "package.json").is_file()
    assert not left.exists()
    plain = ["npm", "install", "--prefix", str(tmp_path / "control"), "--offline", str(archive)]
    (tmp_path / "control").mkdir()
    subprocess.run(plain, capture_output=True, check=True, timeout=120)
    assert left.exists()  # it does run where scripts are let run
