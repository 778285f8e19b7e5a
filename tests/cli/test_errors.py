import errno
import subprocess
import sys
import warnings
from dataclasses import fields

import numpy as np
import pytest
import torch

from dahgnn.cli.errors import (
    describe_error,
    describe_shortage,
    in_options,
    is_out_of_memory,
    warnings_in_a_line,
)
from dahgnn.cli.parser import make_parser
from dahgnn.tables.planning import Choices
from dahgnn.tables.sources import Reading


def error_of(function):
    with pytest.raises((MemoryError, RuntimeError)) as caught:
        function()
    return caught.value


@pytest.mark.parametrize("allocate", [lambda n: np.ones(n), lambda n: torch.ones(n, dtype=torch.float64)])
def test_a_shortage_is_told_with_its_size(allocate):
    error = error_of(lambda: allocate(2**50))
    assert is_out_of_memory(error)
    assert "too little memory: 8.39e+06 GiB more were asked for." in describe_shortage(error)


def test_a_shortage_on_the_gpu_is_told_so():
    error = RuntimeError("CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has …")
    assert is_out_of_memory(error)
    assert describe_shortage(error).startswith("There is too little memory on the GPU: 0.5 GiB more were")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("std::bad_alloc")])
def test_a_shortage_without_a_size_is_told_without(error):
    assert is_out_of_memory(error)
    assert describe_shortage(error).startswith(
        "There is too little memory. What was finished before is kept."
    )


@pytest.mark.parametrize("error", [RuntimeError("a bug"), ValueError("out of memory"), KeyError("x")])
def test_other_errors_are_no_shortage(error):
    assert not is_out_of_memory(error)


def test_a_fit_without_memory_says_what_to_do(tmp_path):
    np.savez(
        tmp_path / "big.npz", X=np.random.default_rng(0).normal(size=(4000, 2000)), y=np.arange(4000) % 2
    )
    # Torch alone reserves some gigabytes of addresses; then there are a few hundred megabytes.
    code = (
        "import resource, torch, sklearn.linear_model, pandas, dahgnn.report.fit_folder\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 2**20,) * 2)\n"
        "from dahgnn.cli.commands import main\n"
        f"raise SystemExit(main(['fit', {str(tmp_path / 'big.npz')!r}, '--label', 'y', '--out', {str(tmp_path / 'out')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "dahgnn: There is too little memory" in done.stderr
    assert "--networks 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_parameters_are_called_as_on_the_command_line():
    assert in_options("The 'validation' parameter of DAHGNNClassifier must be …") == (
        "The option --validation must be …"
    )
    assert in_options("The 'y' parameter of DAHGNNClassifier must be words") == (
        "The labels of the table must be words"
    )
    assert in_options("The 'columns' parameter of FitView must be …").startswith("The 'columns' parameter of")


def test_every_parameter_of_a_table_is_an_option(capsys):
    with pytest.raises(SystemExit):
        make_parser().parse_args(["fit", "--help"])
    known = capsys.readouterr().out
    of_reading = {each.name for each in fields(Reading)} - {"shape"}
    of_columns = {each.name for each in fields(Choices)}
    for name in {"label", "id"} | of_reading | of_columns:
        option = f"--{name.replace('_', '-')}"
        assert (
            in_options(f"The '{name}' parameter of read_table must be …") == f"The option {option} must be …"
        )
        assert option in known


def test_numbers_of_the_system_are_put_in_words():
    full = OSError(errno.ENOSPC, "No space left on device")
    assert describe_error(full, of_fit=True).startswith("The disk is full.")
    assert (
        describe_error(PermissionError(13, "Permission denied", "a"), of_fit=True) == "a: Permission denied."
    )
    assert describe_error(ValueError("The 'k' parameter of knn must"), of_fit=False) == (
        "The 'k' parameter of knn must"
    )


def test_warnings_are_one_line_without_a_path(capsys):
    with warnings_in_a_line():
        warnings.simplefilter("always")
        warnings.warn("Features 1 are constant.\nMore of it", UserWarning, stacklevel=1)
        warnings.warn("will change", FutureWarning, stacklevel=1)
    assert capsys.readouterr().err == "dahgnn: Features 1 are constant.\n"
