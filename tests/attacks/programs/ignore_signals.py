# Ignores whatever can be ignored, and uses up its CPU time.
# expect: timeout
# limits: cpu_s=0.3 wall_s=20
import contextlib
import signal

for number in range(1, 65):
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
while True:
    pass
