"""auditwheel repair for a processor and a C library other than this machine's: repair.py x86_64 musl ARGUMENTS."""

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
