"""Downloads from a real server on the loopback interface."""

import gzip
import hashlib
import io
import os
import socket
import tempfile
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from domkl.base.errors import DataError, InputError
from domkl.datasets import fetch, load
from domkl.datasets.uci import SOURCES

DATA = os.environ.get("DOMKL_DATA")
real = pytest.mark.skipif(not DATA, reason="DOMKL_DATA is not set: the UCI files are not at hand")

WEATHER = b"station,Date\n1,2\n"


class Server:
    """Serves `body` on every path; `cut` bytes of it never arrive."""

    def __init__(self) -> None:
        self.body, self.cut, self.length, self.paths = b"", 0, True, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.paths.append(self.path)
                if not outer.body:
                    return self.send_error(404)
                self.send_response(200)
                if outer.length:
                    self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                return self.wfile.write(outer.body[: len(outer.body) - outer.cut])

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/public"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    yield server
    server.close()


def zipped(**members: bytes) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return body.getvalue()


def known(monkeypatch, key: str, *contents: bytes) -> None:
    """Make `contents` what the dataset's files must hold."""
    files = [
        replace(file, digests=(file.digest(data),))
        for file, data in zip(SOURCES[key].files, contents, strict=False)
    ]
    rest = SOURCES[key].files[len(files) :]
    monkeypatch.setitem(SOURCES, key, replace(SOURCES[key], files=(*files, *rest)))


@pytest.fixture
def weather(monkeypatch, server):
    known(monkeypatch, "weather", WEATHER)
    server.body = zipped(Bias_correction_ucl_dot_csv=WEATHER, readme=b"hello")
    return server


def test_a_good_download(weather, tmp_path):
    seen = []
    path = fetch("weather", cache=tmp_path / "new", base_url=weather.url, progress=lambda *a: seen.append(a))
    assert path == tmp_path / "new" / "weather.csv"
    assert path.read_bytes() == WEATHER
    assert os.listdir(path.parent) == ["weather.csv"]
    assert seen[-1] == (len(weather.body), len(weather.body))
    slug = "bias+correction+of+numerical+prediction+model+temperature+forecast"
    assert weather.paths == [f"/public/514/{slug}.zip"]
    assert fetch("weather", cache=path.parent, base_url=weather.url) == path
    assert len(weather.paths) == 1  # a good file is not downloaded again


def test_the_cache_of_the_environment_is_used(weather, tmp_path, monkeypatch):
    monkeypatch.setenv("DOMKL_CACHE", str(tmp_path / "env"))
    assert fetch("weather", base_url=weather.url).parent == tmp_path / "env"


def test_a_server_that_tells_no_length(weather, tmp_path):
    weather.length = False
    seen = []
    fetch("weather", cache=tmp_path, base_url=weather.url, progress=lambda *a: seen.append(a))
    assert seen[-1] == (len(weather.body), None)


def wrong_hash(server):
    server.body = zipped(Bias_correction_ucl_dot_csv=b"other")


def truncated(server):
    server.cut = 20


def truncated_without_length(server):
    server.cut, server.length = 20, False


def not_found(server):
    server.body = b""


def no_zip(server):
    server.body = b"<html>please log in</html>"


def no_member(server):
    server.body = zipped(other_dot_csv=b"1")


def bad_bytes(server):
    at = server.body.index(b"Bias_correction_ucl.csv") + 23
    server.body = server.body[:at] + bytes([server.body[at] ^ 255]) + server.body[at + 1 :]


def bad_sum(server):
    packed = zipped(Bias_correction_ucl_dot_csv=WEATHER)
    server.body = packed.replace(packed[14:18], b"\0\0\0\0")  # the CRC, in both places


@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (
            wrong_hash,
            [hashlib.sha256(b"other").hexdigest(), hashlib.sha256(WEATHER).hexdigest(), "nothing was kept"],
        ),
        (truncated, ["the connection broke after", "by hand and set DOMKL_DATA"]),
        (truncated_without_length, ["not a whole zip", "try again"]),
        (not_found, ["/514/", "the server answered 404", "set DOMKL_DATA"]),
        (no_zip, ["not a whole zip"]),
        (no_member, ["holds no Bias_correction_ucl.csv, only other.csv"]),
        (bad_bytes, ["not a whole zip"]),
        (bad_sum, ["not a whole zip", "CRC"]),
    ],
)
@pytest.mark.parametrize("old", [None, b"an old file"])
def test_a_bad_download_changes_nothing(weather, tmp_path, spoil, parts, old):
    if old:
        (tmp_path / "weather.csv").write_bytes(old)
    spoil(weather)
    with pytest.raises(DataError) as caught:
        fetch("weather", cache=tmp_path, base_url=weather.url)
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []
    assert os.listdir(tmp_path) == (["weather.csv"] if old else [])
    assert not old or (tmp_path / "weather.csv").read_bytes() == old


def test_an_old_good_file_survives_a_dead_server(weather, tmp_path):
    fetch("weather", cache=tmp_path, base_url=weather.url)
    not_found(weather)
    assert fetch("weather", cache=tmp_path, base_url=weather.url).read_bytes() == WEATHER


def test_a_damaged_file_is_replaced(weather, tmp_path):
    (tmp_path / "weather.csv").write_bytes(b"damaged")
    assert fetch("weather", cache=tmp_path, base_url=weather.url).read_bytes() == WEATHER


def test_a_refused_connection(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(DataError, match=r"no connection or a broken one .*refused.*set DOMKL_DATA"):
        fetch("weather", cache=tmp_path, base_url=url)
    assert os.listdir(tmp_path) == []


def test_a_cache_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DataError, match=r"cannot be written into .*choose another with --cache or DOMKL_CACHE"
    ):
        fetch("weather", cache=tmp_path / "file" / "cache")


def test_a_cache_that_cannot_be_written_into(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(DataError, match=r"cannot be written into \(Permission denied\)") as error:
        fetch("weather", cache=tmp_path)
    assert "\n" not in str(error.value)


def test_the_stations_are_here_already():
    assert fetch("stations").name == "nyc_weather_2013.csv.gz"


def test_unknown_names():
    with pytest.raises(InputError, match="did you mean 'weather'"):
        fetch("wether")
    with pytest.raises(InputError, match="farm has no meaning for 'weather'"):
        fetch("weather", farm="perth")


def test_a_gzipped_member_and_a_shared_file(server, tmp_path, monkeypatch):
    text = b"holiday,temp,traffic_volume\n" + b"None,1,2\n" * 9
    for name in ("traffic", "temperature"):
        known(monkeypatch, name, text)
    server.body = zipped(Metro_Interstate_Traffic_Volume_dot_csv_dot_gz=gzip.compress(text))
    path = fetch("traffic/10", cache=tmp_path, base_url=server.url)
    assert fetch("temperature", cache=tmp_path, base_url=server.url) == path
    assert len(server.paths) == 1
    assert load("temperature/2", rows=9, data_dir=tmp_path).X.shape == (7, 2)


def test_wave_energy_by_farm(server, tmp_path, monkeypatch):
    known(monkeypatch, "wave_energy", b"adelaide", b"perth")
    server.body = zipped(
        WECs_DataSet__Perth_Data_dot_csv=b"perth", WECs_DataSet__Adelaide_Data_dot_csv=b"adelaide"
    )
    assert fetch("wave", cache=tmp_path, base_url=server.url).read_bytes() == b"adelaide"
    assert fetch("wave", cache=tmp_path, base_url=server.url, farm="perth").read_bytes() == b"perth"


def test_conductivity_keeps_the_genuine_file_under_its_own_name(server, tmp_path, monkeypatch):
    known(monkeypatch, "conductivity", b"genuine")
    server.body = zipped(train_dot_csv=b"genuine", unique_m_dot_csv=b"more")
    path = fetch("conductivity", cache=tmp_path, base_url=server.url)
    assert path.name == "superconductivity_train.csv"


def test_air_quality_is_the_csv_of_the_zip(server, tmp_path, monkeypatch):
    known(monkeypatch, "air_quality", b"elsewhere", b"the csv")
    server.body = zipped(AirQualityUCI_dot_csv=b"the csv", AirQualityUCI_dot_xlsx=b"a sheet")
    path = fetch("air", cache=tmp_path, base_url=server.url)
    assert path.name == "air_quality.csv"
    assert os.listdir(tmp_path) == ["air_quality.csv"]


REAL = {
    "weather": ("weather", "Bias_correction_ucl_dot_csv"),
    "traffic": ("metro_traffic", "Metro_Interstate_Traffic_Volume_dot_csv_dot_gz"),
    "air": ("air_quality", "AirQualityUCI_dot_csv"),
}


@real
@pytest.mark.parametrize("name", REAL)
def test_real_files_through_the_server(server, tmp_path, name):
    stem, member = REAL[name]
    packed = (Path(DATA) / f"{stem}.csv.gz").read_bytes()
    server.body = zipped(**{member: packed if member.endswith("gz") else gzip.decompress(packed)})
    path = fetch(name, cache=tmp_path, base_url=server.url)
    assert path.read_bytes() == gzip.decompress(packed)
    assert load(name, data_dir=tmp_path).y.size > 6000
