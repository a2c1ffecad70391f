# Looks for the program behind `reference`, and forges its answers.
# expect: ok
# oracle: yes
import contextlib
import os
import subprocess

from hostile import breach

answer = subprocess.run(["reference", "x"], capture_output=True).stdout
if answer != b"secret answer":
    breach(f"the oracle said {answer!r}")
for place, _, names in os.walk("/run"):
    for name in names:
        with contextlib.suppress(OSError):
            fd = os.open(os.path.join(place, name), os.O_RDONLY | os.O_NONBLOCK)
            if b"secret" in os.read(fd, 1 << 20):
                breach(name)
for name in ("/run/bin/reference", "/run/oracle/request", "/run/oracle/reply", "/run/oracle/lock"):
    for change in (os.unlink, lambda n: os.rename(n, "/work/x"), lambda n: os.chmod(n, 0o777)):
        with contextlib.suppress(OSError):
            change(name)
            breach(name)
