# One file larger than files may be, with the signal ignored.
# expect: nonzero
# limits: file_bytes=1M
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("large", "wb") as file:
    file.write(bytes(4 << 20))
print("BREACH")
