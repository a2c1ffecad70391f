import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from audit.events import AuditError, AuditLog, read_events
from queues.messages import Verdict


def test_events_come_back_as_they_were_written(tmp_path: Path):
    text, binary = "grüße\n".encode(), bytes(range(256))
    verdict = Verdict(decision="block", rules=("eval-path",), spans=((3, 9),))
    with AuditLog(tmp_path, "sandbox-0", clock=lambda: 12.5) as log:
        log.write("action", "e1", 3, script=text, output=binary, nested={"files": [binary, "a\udcff"]})
        log.write("verdict", "e1", 3, verdict=verdict)
    first, second = read_events(tmp_path)
    assert first.data == {"script": text, "output": binary, "nested": {"files": [binary, "a\udcff"]}}
    assert (first.kind, first.episode, first.step, first.producer, first.time) == ("action", "e1", 3, "sandbox-0", 12.5)
    assert second.data["verdict"]["rules"] == ["eval-path"] and second.data["verdict"]["spans"] == [[3, 9]]
    assert (first.seq, second.seq) == (0, 1)


def test_each_line_is_json_and_text_is_readable(tmp_path: Path):
    with AuditLog(tmp_path, "trainer") as log:
        log.write("action", script=b"echo hello")
    assert json.loads(log.path.read_text())["data"]["script"] == {"utf8": "echo hello"}


def test_every_attempt_gets_its_own_file(tmp_path: Path):
    for _ in range(3):
        with AuditLog(tmp_path, "trainer") as log:
            log.write("started")
    assert [event.attempt for event in read_events(tmp_path)] == [0, 1, 2]


def test_an_event_survives_sigkill_and_a_torn_line_is_left_out(tmp_path: Path):
    code = (
        "import os, signal, sys; from pathlib import Path; from audit.events import AuditLog;"
        "AuditLog(Path(sys.argv[1]), 'trainer').write('step'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == -signal.SIGKILL
    with next(tmp_path.glob("*.jsonl")).open("ab") as file:
        file.write(b'{"time": 1.0, "prod')
    assert [event.kind for event in read_events(tmp_path)] == ["step"]


def test_damage_in_the_middle_is_named(tmp_path: Path):
    with AuditLog(tmp_path, "trainer") as log:
        log.write("one")
    log.path.write_bytes(b"garbage\n" + log.path.read_bytes())
    with pytest.raises(AuditError, match=r"trainer\.0000\.jsonl:1"):
        list(read_events(tmp_path))


def test_a_full_disk_raises_and_leaves_whole_lines(tmp_path: Path):
    log = AuditLog(tmp_path, "trainer")
    log.write("small")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.raises(AuditError, match=os.strerror(errno.EFBIG)) as caught:
            log.write("large", body="x" * 10_000)
        assert caught.value.remedy and str(log.path) in caught.value.where
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    log.write("after")
    log.close()
    events = list(read_events(tmp_path))
    assert [(event.kind, event.seq) for event in events] == [("small", 0), ("after", 1)]


def test_a_closed_log_refuses(tmp_path: Path):
    log = AuditLog(tmp_path, "trainer")
    log.close()
    log.close()
    with pytest.raises(AuditError):
        log.write("late")
    with pytest.raises(ValueError, match="producer"):
        AuditLog(tmp_path, "../elsewhere")
