"""Files are replaced as a whole, never written through a link, and tell whether they are what was written."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import matplotlib.font_manager  # noqa: F401  (the list of fonts lies in the real home folder)
import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, Ridge, Sweep, limits, simulate
from glassformer.cli import main
from glassformer.core.cache import VARIABLE, cached_array
from glassformer.core.checkpoints import Checkpoint, CheckpointFolder
from glassformer.core.files import open_lock_file, replace_file
from glassformer.core.link_parsing import function_from
from glassformer.core.status import Status
from glassformer.errors import DataError, ParameterError
from glassformer.learners.base import FitResult
from glassformer.papers.catalogue import draw
from glassformer.random_matrices.given import spectrum_of
from glassformer.sweeps.collect import collect
from glassformer.sweeps.run import run_sweep

SWEEP = Sweep("bsr", {"rho": [0.5], "alpha": [0.2, 0.4]})


@pytest.fixture
def victim(tmp_path):
    """A file elsewhere, to which links lead that somebody has planted."""
    path = tmp_path / "elsewhere" / "victim"
    path.parent.mkdir()
    path.write_text("precious")
    return path


def unharmed(victim):
    return victim.read_text() == "precious" and len(list(victim.parent.iterdir())) == 1


# --- paths that a user gives ------------------------------------------------------------------------------------------


@pytest.fixture
def uses(tmp_path, monkeypatch):
    """Ways to give the path of a result, in an empty folder beside the home folder."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    model = BilinearSequenceRegression(rho=0.5)
    return {
        "curve.svg": limits(model, [0.2, 0.4]).plot,
        "runs": lambda path: simulate(model, [0.5], Ridge(0.1), d=10, instances=1, checkpoint=path),
        "store": lambda path: run_sweep(SWEEP, path),
    }


def test_a_tilde_is_the_home_folder(uses, tmp_path, capsys):
    home = tmp_path / "home"
    for name, use in uses.items():
        use(f"~/{name}")
        assert (home / name).exists(), name
    assert collect("~/store").sizes == {"rho": 1, "alpha": 2}
    assert main(["limits", "bsr", "--rho", "0.5", "--alpha", "0.2", "--csv=~/a.csv", "--plot=~/a.svg"]) == 0
    assert main(["sweep", "plot", "~/store"]) == 0
    assert all((home / name).is_file() for name in ("a.csv", "a.svg", "store/sweep.png"))
    (home / "own.py").write_text("def link(Z):\n    return Z[0, 0]\n")
    text = '[sweep]\nmodel = "smi"\nverb = "limits"\n[parameters]\nlink = "~/own.py:link"\n'
    (home / "own.toml").write_text(text)
    (home / "values.txt").write_text("1 2")
    assert function_from("~/own.py:link").__name__ == "link"
    assert spectrum_of("~/values.txt").values == (1.0, 2.0)
    # The file that a sweep names is the one whose code would be run.
    assert main(["sweep", "run", "~/own.toml", "--store", "~/store"]) == 2
    assert f"add --link {home / 'own.py'}" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_the_missing_folder_of_a_file_is_named_and_not_made(uses):
    for folder, name in [("missing", "curve.svg"), *(("~no-such-user", name) for name in uses)]:
        with pytest.raises(DataError, match=f"create the folder {folder} first"):
            uses[name](f"{folder}/{name}")
    assert not list(Path().iterdir())


def test_folders_of_results_are_made_with_the_folders_above_them(uses):
    with pytest.raises(ParameterError, match="reference"):
        draw("bsr-3", Path("new/above/figure"), quick=True, reference=Path("missing"))
    assert Path("new/above/figure").is_dir()
    for name in ("runs", "store"):
        uses[name](f"new/above/{name}")
        assert list(Path("new/above", name).iterdir())


# --- one way to write -------------------------------------------------------------------------------------------------


def test_a_link_is_replaced_and_not_followed(tmp_path, victim):
    (tmp_path / "link").symlink_to(victim)
    with replace_file(tmp_path / "link", "file") as part:
        part.write_text("new")
    assert (tmp_path / "link").read_text() == "new"
    assert not (tmp_path / "link").is_symlink()
    assert unharmed(victim)


def test_the_old_file_stays_until_the_new_file_is_complete(tmp_path):
    (tmp_path / "file").write_text("old")

    def interrupted():
        with replace_file(tmp_path / "file", "file") as part:
            part.write_text("ne")
            assert (tmp_path / "file").read_text() == "old"
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DataError, match="free some space"):
        interrupted()
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_new_file_is_made_where_nobody_else_can_put_one(tmp_path):
    names = []
    for _ in range(2):
        with replace_file(tmp_path / "file", "file") as part:
            assert stat.S_IMODE(part.parent.stat().st_mode) == 0o700
            assert part.parent.parent == tmp_path
            names.append(part.parent.name)
            part.touch()
    assert len(set(names)) == 2


def test_permissions_of_a_file_stay(tmp_path):
    path = tmp_path / "file"
    path.touch(0o640)
    path.chmod(0o640)
    with replace_file(path, "file") as part:
        part.write_text("new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with replace_file(tmp_path / "pipe", "file") as part:
        part.write_text("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_a_lock_is_not_emptied(tmp_path, victim):
    (tmp_path / "lock").write_text("content")
    open_lock_file(tmp_path / "lock", "store").close()
    assert (tmp_path / "lock").read_text() == "content"
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(DataError, match="expected a file, not a symbolic link; remove the link"):
        open_lock_file(tmp_path / "link", "store")
    assert unharmed(victim)


# --- what is written that way -----------------------------------------------------------------------------------------


def test_links_in_a_store_lead_nowhere(tmp_path, victim, capsys):
    run_sweep(SWEEP, tmp_path / "store")
    (record,) = (tmp_path / "store" / "points").iterdir()
    for path in (record, tmp_path / "store" / "sweep.json", tmp_path / "store" / "sweep.png"):
        path.unlink(missing_ok=True)
        path.symlink_to(victim)
    with pytest.warns(RuntimeWarning, match="damaged"):
        assert run_sweep(SWEEP, tmp_path / "store").computed == 2
    assert main(["sweep", "plot", str(tmp_path / "store")]) == 0
    assert (tmp_path / "store" / "sweep.png").stat().st_size > 1000
    (lock,) = (tmp_path / "store" / "locks").iterdir()
    lock.unlink()
    lock.symlink_to(victim)
    record.unlink()
    with pytest.raises(DataError, match=f"store = .*{lock.name}.*symbolic link"):
        run_sweep(SWEEP, tmp_path / "store")
    assert unharmed(victim)


@pytest.mark.parametrize("folder", ["points", "locks"])
def test_a_link_in_place_of_a_folder_of_a_store_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=f"{folder}.*expected a folder, not a symbolic link; remove the link"):
        run_sweep(SWEEP, tmp_path / "store")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("option", ["csv", "plot", "netcdf"])
def test_a_full_disk_leaves_the_old_result(option, tmp_path, monkeypatch, capsys):
    path = tmp_path / ("a.png" if option == "plot" else f"a.{option}")
    path.write_text("old")
    if option == "netcdf":
        run_sweep(SWEEP, tmp_path / "store")
        command = ["sweep", "collect", str(tmp_path / "store")]
    else:
        command = ["limits", "bsr", "--alpha", "0.3", "--rho", "0.5"]

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main([*command, f"--{option}", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "free some space" in line
    assert path.read_text() == "old"


@pytest.mark.parametrize("second", ["a.png", "./a.png", "link.png"])
def test_one_file_for_two_results_is_refused(second, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("link.png").symlink_to("a.png")
    assert main(["limits", "bsr", "--alpha", "0.3", "--rho", "0.5", "--csv", "a.png", "--plot", second]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"plot = '{Path(second)}' is not allowed: expected a file other than that of --csv" in line
    assert not Path("a.png").exists()


def test_links_that_lead_to_each_other_are_replaced_as_other_links(tmp_path):
    (tmp_path / "a.csv").symlink_to("b.csv")
    (tmp_path / "b.csv").symlink_to("a.csv")
    assert main(["limits", "bsr", "--alpha", "0.3", "--rho", "0.5", "--csv", str(tmp_path / "a.csv")]) == 0
    assert "converged" in (tmp_path / "a.csv").read_text()


def test_a_full_device_is_named(capsys):
    assert main(["limits", "bsr", "--alpha", "0.3", "--rho", "0.5", "--csv", "/dev/full"]) == 2
    assert "csv = '/dev/full' is not allowed" in capsys.readouterr().err


# --- what is read again -----------------------------------------------------------------------------------------------


def foreign_archive(path):
    np.savez(path, other=np.zeros(3))


def archive_of_another_shape(path):
    np.savez(path, leaf_0=np.full((9, 9), np.nan))


def flipped(path):
    """Every byte of the first header, one after the other, is another one."""
    content = bytearray(path.read_bytes())
    for place in range(0, 60, 3):
        content[place] ^= 0xFF
    path.write_bytes(content)


def renamed(path):
    """A checkpoint of another computation."""
    other = Checkpoint(path.with_name("other.npz"))
    other.save({"leaf_0": np.zeros(2)})
    path.write_bytes(other.path.read_bytes())


@pytest.mark.parametrize("damage", [foreign_archive, archive_of_another_shape, flipped, renamed])
def test_damaged_and_foreign_checkpoints_are_reported_and_ignored(damage, tmp_path):
    checkpoint = Checkpoint(tmp_path / "state.npz")
    checkpoint.save({"leaf_0": np.ones(2)})
    np.testing.assert_array_equal(checkpoint.load()["leaf_0"], 1.0)
    damage(checkpoint.path)
    with pytest.warns(RuntimeWarning, match=r"state\.npz cannot be read: its content is computed again"):
        assert checkpoint.load() is None


def test_every_single_byte_of_a_checkpoint_counts(tmp_path, recwarn):
    checkpoint = Checkpoint(tmp_path / "state.npz")
    checkpoint.save({"leaf_0": np.ones(2)})
    content = checkpoint.path.read_bytes()
    for place in range(0, len(content), 5):
        checkpoint.path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert checkpoint.load() is None, place


def test_checkpoints_are_archives_of_arrays(tmp_path):
    """As other programs read them, the checksum at their end notwithstanding."""
    Checkpoint(tmp_path / "state.npz").save({"leaf_0": np.ones(2)})
    with np.load(tmp_path / "state.npz") as found:
        np.testing.assert_array_equal(found["leaf_0"], 1.0)


@pytest.mark.parametrize("text", ["[1, 2]", "[" * 100_000, "{}", '{"run": {"status": 1}}', "\xff"])
def test_a_finished_run_that_is_foreign_is_computed_again(text, tmp_path):
    keeper, identity = CheckpointFolder(tmp_path), {"seed": 1}
    run = FitResult(np.ones(2), status=Status.CONVERGED, iterations=1, residual=0.0)
    keeper.run(FitResult, identity, lambda _: run)
    (path,) = tmp_path.glob("*.json")
    path.write_text(text, encoding="latin-1")
    with pytest.warns(RuntimeWarning, match="computed again"):
        again = keeper.run(FitResult, identity, lambda _: run)
    np.testing.assert_array_equal(again.estimates, run.estimates)
    # What replaces it is whole.
    keeper.run(FitResult, identity, lambda _: pytest.fail("computed again"))


def test_a_finished_run_with_a_changed_digit_is_computed_again(tmp_path):
    keeper, identity = CheckpointFolder(tmp_path), {"seed": 1}
    run = FitResult(np.full(2, 0.25), status=Status.CONVERGED, iterations=1, residual=0.0)
    keeper.run(FitResult, identity, lambda _: run)
    (path,) = tmp_path.glob("*.json")
    path.write_text(path.read_text().replace("0.25", "0.35", 1))
    with pytest.warns(RuntimeWarning, match="computed again"):
        assert keeper.run(FitResult, identity, lambda _: run).estimates.tolist() == [0.25, 0.25]


def test_a_table_with_a_changed_byte_is_computed_again(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    cached_array(lambda: np.ones(2), "changed")
    (path,) = (tmp_path / "tables").iterdir()
    content = path.read_bytes()
    path.write_bytes(content.replace(np.float64(1).tobytes(), np.float64(3).tobytes()))
    np.testing.assert_array_equal(cached_array(lambda: np.ones(2), "changed"), 1.0)
    assert path.read_bytes() == content


def test_records_of_runs_stay_documents_that_other_programs_read(tmp_path):
    run = FitResult(np.ones(2), status=Status.CONVERGED, iterations=1, residual=0.0)
    CheckpointFolder(tmp_path).run(FitResult, {"seed": 1}, lambda _: run)
    (path,) = tmp_path.glob("*.json")
    assert json.loads(path.read_text()).keys() == {"identity", "run", "checksum"}
