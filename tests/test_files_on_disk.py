"""Files that are whole or not there: crashes, full disks and permissions."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bilink._files import (
    UNFINISHED,
    append_text,
    filling,
    locked,
    replacing,
    user_cache,
    write_text,
)
from bilink.errors import RunError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@pytest.fixture
def path(tmp_path):
    """A file that holds "old"."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file.txt").write_text("old")
    return folder / "file.txt"


def content(folder):
    """All that a folder holds, hidden files as well."""
    return {each.name: each.read_text() for each in folder.iterdir()}


def run(code, path, **options):
    """Run ``code`` in a process of its own, with ``path`` in scope."""
    code = f"from pathlib import Path\npath = Path({str(path)!r})\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)


WRITE = """
from bilink._files import write_text
from bilink.errors import RunError
try:
    write_text(path, "new" * 100_000)
except RunError as error:
    print(error)
"""


def test_text_is_written_as_utf_8_with_one_kind_of_line_end(path):
    write_text(path, "zwölf\nStück")
    assert path.read_bytes() == "zwölf\nStück".encode()
    write_text(path.with_name("other"), "")
    assert content(path.parent) == {"file.txt": "zwölf\nStück", "other": ""}


def test_until_the_block_has_ended_the_old_file_is_there(path):
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert content(path.parent) == {"file.txt": "new"}


@pytest.mark.parametrize("error", [ValueError("odd"), KeyboardInterrupt()])
def test_an_error_in_the_block_passes_and_the_old_file_stays(path, error):
    def write():
        with replacing(path) as temporary:
            temporary.write_text("ne")
            raise error

    with pytest.raises(type(error)):
        write()
    assert content(path.parent) == {"file.txt": "old"}


def test_a_link_is_replaced_and_what_it_leads_to_stays(path):
    victim = path.with_name("victim")
    victim.write_text("mine")
    path.unlink()
    path.symlink_to(victim)
    write_text(path, "new")
    assert content(path.parent) == {"file.txt": "new", "victim": "mine"}


def test_nothing_is_added_to_what_a_link_or_a_pipe_leads_to(path):
    victim, link, pipe = (path.with_name(name) for name in ("victim", "link", "pipe"))
    victim.write_text("mine")
    link.symlink_to(victim)
    os.mkfifo(pipe)
    append_text(path, " and new")
    assert path.read_text() == "old and new"
    with pytest.raises(RunError, match="link is a link to another file, which is not touched"):
        append_text(link, "new")
    with pytest.raises(RunError, match="cannot write"):
        append_text(pipe, "new")
    assert victim.read_text() == "mine"


def test_a_lock_neither_empties_a_file_nor_follows_a_link(path):
    link = path.with_name("link")
    link.symlink_to(path)
    with locked(path, wait=False) as free:
        assert free
        with locked(path, wait=False) as again:
            assert not again
    with pytest.raises(RunError, match="is a link"), locked(link, wait=False):
        pass
    assert path.read_text() == "old"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_process_killed_at_any_call_leaves_the_old_file_or_the_new_one(path, call):
    """The last call, the fsync of the folder, comes after the rename."""
    for skipped in range(2 if call == "fsync" else 1):
        path.write_text("old")
        code = f"""
import os, signal
real, left = os.{call}, [{skipped}]
def killed(*arguments):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return real(*arguments)
os.{call} = killed
{WRITE}"""
        assert run(code, path).returncode == -signal.SIGKILL
        assert path.read_text() == ("new" * 100_000 if skipped else "old")
    write_text(path, "newer")  # what the killed process left is not in the way
    assert path.read_text() == "newer"


def test_a_file_is_on_the_disk_before_it_gets_its_name_and_the_name_after_that(path, monkeypatch):
    """Else a power failure could leave the name of a file without its content."""
    calls = []
    synced, replaced = os.fsync, os.replace

    def fsync(handle):
        calls.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        synced(handle)

    def replace(*paths):
        calls.append("rename")
        replaced(*paths)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_text(path, "new")
    if sys.platform.startswith("linux"):
        assert calls == ["file", "rename", "folder"]


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
@pytest.mark.parametrize("number", [*NO_SPACE, errno.EIO])
def test_a_disk_that_fails_is_a_sentence_and_the_old_file_stays(path, call, number, monkeypatch):
    def fail(*arguments, **options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("io.open" if call == "open" else f"os.{call}", fail)
    with pytest.raises(RunError) as refused:
        write_text(path, "new")
    monkeypatch.undo()
    wanted = "no space left while writing" if number in NO_SPACE else "cannot write"
    assert str(refused.value).startswith(f"{wanted} {path}")
    assert content(path.parent) == {"file.txt": "old"}


def test_a_file_that_may_not_grow_is_a_sentence_and_the_old_file_stays(path):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # noqa: E731
    done = run(WRITE, path, preexec_fn=limit)
    assert done.stdout.startswith(
        f"no space left while writing {path}; the last good state is kept"
    )
    assert content(path.parent) == {"file.txt": "old"}


def test_a_full_disk_is_a_sentence_and_the_old_file_stays(disk):
    folder, _ = disk
    write_text(folder / "file.txt", "old")
    with pytest.raises(RunError, match="no space left while writing"):
        write_text(folder / "file.txt", "new" * 100_000)
    assert content(folder) == {"file.txt": "old"}


def test_a_disk_that_is_read_only_is_a_sentence(disk):
    folder, mount = disk
    write_text(folder / "file.txt", "old")
    mount("remount,ro")
    with pytest.raises(RunError, match=r"cannot write .*file\.txt: Read-only file system"):
        write_text(folder / "file.txt", "new")
    assert content(folder) == {"file.txt": "old"}


def test_a_folder_without_permission_is_a_sentence(path):
    path.parent.chmod(0o555)
    try:
        # Root may write everywhere, so it becomes nobody.
        become = "import os, bilink._files\nif os.geteuid() == 0: os.seteuid(65534)"
        done = run(f"{become}\n{WRITE}", path)
        assert done.stdout.startswith(f"cannot write {path}: Permission denied"), done.stderr
    finally:
        path.parent.chmod(0o755)
    assert content(path.parent) == {"file.txt": "old"}


def test_a_new_file_has_the_permissions_that_the_user_wants_of_new_files(path):
    for umask, mode in ((0o077, 0o600), (0o022, 0o644)):
        assert run(f"import os; os.umask({umask})\n{WRITE}", path).returncode == 0
        assert path.stat().st_mode & 0o777 == mode


def test_where_the_cache_is(monkeypatch):
    monkeypatch.delenv("BILINK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert user_cache() == Path("/home/somebody/.cache/bilink")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert user_cache() == Path("/var/cache/bilink")
    monkeypatch.setenv("BILINK_CACHE", "/fast/disk")
    assert user_cache() == Path("/fast/disk")


# -- folders of files ------------------------------------------------------------------------------


def test_a_folder_whose_filling_was_killed_is_filled_anew(path):
    folder = path.parent / "new"
    kill = """
import os
from bilink._files import filling, write_text
with filling(path, ["a", "b"]):
    write_text(path / "a", "old")
    (path / ".a.1234.tmp").write_text("half")
    os.kill(os.getpid(), 9)
"""
    assert run(kill, folder).returncode == -9
    assert {*content(folder)} == {"a", ".a.1234.tmp", UNFINISHED}
    with filling(folder, ["a", "b"]):
        write_text(folder / "b", "new")
    assert content(folder) == {"b": "new"}
    with pytest.raises(RunError, match="is not empty; choose another --out"), filling(folder, "b"):
        pass
    assert content(folder) == {"b": "new"}


def test_files_of_others_stay_in_a_folder_that_was_not_filled(path):
    folder = path.parent
    (folder / UNFINISHED).touch()
    with pytest.raises(RunError, match=r"holds 'file\.txt'"), filling(folder, ["a"]):
        pass
    assert content(folder) == {"file.txt": "old", UNFINISHED: ""}


def test_an_error_leaves_a_folder_that_can_be_filled_anew(path):
    folder = path.parent / "new"
    with pytest.raises(KeyError), filling(folder, ["a"]):
        raise KeyError
    with filling(folder, ["a"]):
        write_text(folder / "a", "new")
    assert content(folder) == {"a": "new"}
