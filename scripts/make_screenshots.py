"""Make docs/images/page-*.png: the live page of `domkl up`, three real stations, in a real browser.

python scripts/make_screenshots.py        needs chromium and chromium-driver (scripts/install_system.sh)
"""

from __future__ import annotations

import io
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from PIL import Image  # noqa: E402

import browser  # noqa: E402

IMAGES = ROOT / "docs" / "images"
ADDRESS = "127.0.0.1:8799"
ROUNDS = 700
#: Width and height, 0 for the whole page; whether it is a phone; scheme.
LOOKS = {
    "light": (1280, 0, False, "light"),
    "dark": (1280, 800, False, "dark"),
    "phone": (390, 844, True, "light"),
}
READY = f"""state && state.learners.length === 3 && state.learners.every((each) => each.round > {ROUNDS})
    && state.detail.effects && state.detail.effects.round > {ROUNDS // 2}"""
#: Red, which the page has in small spots only.
RARE = ((0xC8, 0x1E, 0x1E), (0xFF, 0x7B, 0x7B))
WHOLE = "return document.documentElement.scrollHeight"


def main() -> None:
    """Start a network, wait until it has learnt for a while, and take pictures."""
    command = [
        sys.executable,
        "-m",
        "domkl",
        "up",
        "--rate",
        "60",
        "--rounds",
        "3000",
        "--page",
        ADDRESS,
        "--json",
    ]
    network = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with browser.opened() as page:
            _open(page)
            for name, (width, height, is_phone, scheme) in LOOKS.items():
                page.prefer(prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
                page.resize(width, height or 800, is_phone)
                time.sleep(1.5)
                page.resize(width, height or page.run(WHOLE), is_phone)
                time.sleep(2.5)
                _save(page.picture(), IMAGES / f"page-{name}.png")
    finally:
        network.terminate()
        network.wait(30)


def _open(page: browser.Browser) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            page.open(f"http://{ADDRESS}/")
            break
        except OSError:
            time.sleep(0.5)
    page.wait_for(READY, 240)


def _save(png: bytes, path: pathlib.Path) -> None:
    """With a palette of its most common colours and RARE: all others only smooth the edges of letters."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    counts = sorted(picture.getcolors(picture.width * picture.height), reverse=True)
    colours = [*RARE, *(colour for _, colour in counts[: 256 - len(RARE)])]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in colours for part in colour])
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path.relative_to(ROOT), path.stat().st_size // 1000, "kB")


if __name__ == "__main__":
    main()
