# Holds the oracle's lock and its pipes, and asks without ever reading the answer.
# expect: ok
# oracle: yes
import fcntl
import json
import os
import struct
import subprocess

lock = os.open("/run/oracle/lock", os.O_RDONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
header = json.dumps({"argv": ["x"], "stdin": 0, "files": []}).encode()
for _ in range(3):
    fd = os.open("/run/oracle/request", os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, struct.pack(">II", len(header), 0) + header)
subprocess.Popen(["reference", "y"])
