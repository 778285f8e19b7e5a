import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from dahgnn.cli.interruption import hearing_sigterm, is_interruption

# Runs a command, and sends itself a signal when a module is first asked for.
AT_IMPORT = """
import builtins, os, runpy, signal, sys
module, arguments = sys.argv[1], sys.argv[2:]
really = builtins.__import__
def cut(name, *rest, **keywords):
    if name == module or name.startswith(module + "."):
        builtins.__import__ = really
        os.kill(os.getpid(), signal.SIGINT)
    return really(name, *rest, **keywords)
builtins.__import__ = cut
sys.argv = ["dahgnn", *arguments]
runpy.run_module("dahgnn", run_name="__main__")
"""


@pytest.fixture
def table(tmp_path):
    rows = np.random.default_rng(0).normal(size=(400, 8)) + (np.arange(400) % 2)[:, None]
    lines = [
        ",".join(f"{x:.3f}" for x in row) + f",{'uv'[n % 2] if n < 200 else ''}" for n, row in enumerate(rows)
    ]
    path = tmp_path / "table.csv"
    path.write_text(",".join("abcdefgh") + ",kind\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("module", ["dahgnn.cli", "argparse", "rich", "numpy", "torch", "sklearn", "pandas"])
def test_ctrl_c_while_modules_load_is_one_line(table, module):
    command = [sys.executable, "-c", AT_IMPORT, module, "fit", str(table), "--label", "kind"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=table.parent)
    assert (done.returncode, done.stderr) == (130, "dahgnn: interrupted.\n")
    assert not (table.parent / "runs").exists()


def fit_until(table, word, number):
    """Start a long fit, and send a signal when it has written a word."""
    command = [sys.executable, "-m", "dahgnn", "fit", str(table), "--label", "kind", "--networks", "400"]
    process = subprocess.Popen(
        [*command, "--map", "pca", "--out", "out"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=table.parent,
    )
    said = ""
    for line in process.stderr:
        said += line
        if word in line:
            time.sleep(0.3)
            process.send_signal(number)
            break
    out, rest = process.communicate(timeout=120)
    return process.returncode, out, said + rest


@pytest.mark.slow
def test_sigterm_keeps_the_best_so_far_as_ctrl_c_does(table):
    status, out, said = fit_until(table, "epoch", signal.SIGTERM)
    assert status == 143, said
    assert said.endswith("dahgnn: interrupted.\n")
    assert "The training was interrupted" in out
    folder = table.parent / "out"
    assert json.loads((folder / "metrics.json").read_text())["stopped"] == "interrupted"
    assert {"model.safetensors", "predictions.csv", "report.html"} < set(os.listdir(folder))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    status, _, said = fit_until(table, "epoch", signal.SIGTERM)
    assert status == 143
    assert "The fit that was in out stays." in said
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_sigterm_is_ctrl_c_in_the_block_alone():
    with hearing_sigterm() as heard, pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_ends_what_ignores_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with hearing_sigterm(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_of_somebody_else_stays():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:
        with hearing_sigterm() as ours:
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (heard, ours) == ([1], [])


def test_an_error_that_only_follows_an_interruption_is_none():
    error = ValueError("a bug")
    error.__context__ = KeyboardInterrupt()
    assert not is_interruption(error)
    assert is_interruption(KeyboardInterrupt())


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_the_interpreter_ends_changes_nothing(name):
    code = f"""
import atexit, os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(os.kill, os.getpid(), signal.{name})
sys.argv = ["dahgnn", "version"]
runpy.run_module("dahgnn", run_name="__main__")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("dahgnn ")
