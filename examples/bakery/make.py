"""Makes sales.csv and tomorrow.csv: what a bakery that never was sold in three shops, as an office saves it.

Semicolons, decimal commas, dates with the day first, a few empty cells. What is sold depends on the weekday,
the season, the weather, the price and the shop.
"""

from __future__ import annotations

import math
import pathlib
import random
from datetime import date, timedelta

SHOPS = {"Harbour": 90, "Market": 140, "Station": 200}
WEATHER = {"sun": 1.15, "clouds": 1.0, "rain": 0.8}
HEAD = '"Date";"Shop";"Weather";"Price (EUR)";"Holiday";"Sold"'
FIRST, DAYS = date(2023, 1, 2), 180


def rows(first: date, days: int, seed: int, known: bool) -> list[str]:
    """A line for each shop and day."""
    draw, lines = random.Random(seed), [HEAD]
    for day in (first + timedelta(days=i) for i in range(days)):
        weather = draw.choices(list(WEATHER), [3, 4, 3])[0]
        for shop, usual in SHOPS.items():
            price = round(draw.uniform(1.1, 1.9), 2)
            holiday = (day.month, day.day) in ((1, 1), (5, 1), (12, 25))
            week = (1.0, 0.95, 1.0, 1.05, 1.2, 1.5, 0.6)[day.weekday()]
            season = 1 + 0.15 * math.cos(2 * math.pi * day.timetuple().tm_yday / 365)
            sold = usual * week * season * WEATHER[weather] * (2.2 - 0.8 * price) * (0.3 if holiday else 1)
            cells = [f"{day:%d.%m.%Y}", shop, weather, f"{price:.2f}".replace(".", ",")]
            cells[2] = "" if draw.random() < 0.02 else cells[2]
            cells += ["yes" if holiday else "no", str(round(sold + draw.gauss(0, 6))) if known else ""]
            lines.append(";".join(cells))
    return lines


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    after = FIRST + timedelta(days=DAYS)
    for name, lines in (("sales", rows(FIRST, DAYS, 1, True)), ("tomorrow", rows(after, 2, 2, False))):
        (here / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
