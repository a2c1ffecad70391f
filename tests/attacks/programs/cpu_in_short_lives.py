# Uses up CPU time in processes that are gone before anyone looks.
# expect: timeout
# limits: cpu_s=0.4 wall_s=20
import os

while True:
    if not os.fork():
        sum(range(100_000))
        os._exit(0)
    os.wait()
