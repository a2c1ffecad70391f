# Asks for every signal at the end of everything, in a group with its children.
# expect: killed
import os
import signal
import time

for _ in range(4):
    if not os.fork():
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGCONT))
        time.sleep(60)
os.killpg(0, signal.SIGKILL)
