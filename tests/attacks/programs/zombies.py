# Children that nobody waits for, as many as there may be.
# expect: too_many_processes nonzero
# limits: processes=32 wall_s=10
import os

while True:
    if not os.fork():
        os._exit(0)
