"""auditwheel repair for another processor or C library than this machine has: repair.py aarch64 musl ..."""

from __future__ import annotations

import platform
import sys

cpu, libc = sys.argv.pop(1), sys.argv.pop(1)
platform.machine = lambda: cpu  # all that auditwheel looks at

from auditwheel.libc import Libc  # noqa: E402
from auditwheel.main import main  # noqa: E402

Libc.detect = staticmethod(lambda: Libc.MUSL if libc == "musl" else Libc.GLIBC)
sys.argv.insert(1, "repair")
sys.exit(main())
