"""A PostgreSQL server for tests."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager

import pytest


@contextmanager
def postgres():
    """A PostgreSQL server of our own on a loopback port; its address."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [os.path.dirname(shutil.which("initdb") or "")]
    if not found[-1]:
        pytest.skip("PostgreSQL is not installed: scripts/install_system.sh")
    pytest.importorskip("psycopg")
    as_user = {}
    if os.getuid() == 0:
        user = pwd.getpwnam("nobody")
        as_user = {"user": user.pw_uid, "group": user.pw_gid}
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        if as_user:
            os.chown(folder, as_user["user"], as_user["group"])
        data, socket_folder = os.path.join(folder, "data"), f"-k {folder} -h 127.0.0.1 -p {port} -F"
        how = {
            **as_user,
            "check": True,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "cwd": folder,
        }
        subprocess.run(
            [f"{found[-1]}/initdb", "-D", data, "-U", "me", "-A", "trust", "-N", "--no-locale"], **how
        )
        free.close()
        subprocess.run([f"{found[-1]}/pg_ctl", "-D", data, "-w", "-o", socket_folder, "start"], **how)
        try:
            yield f"postgresql://me:secret@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([f"{found[-1]}/pg_ctl", "-D", data, "-m", "immediate", "stop"], **how)
