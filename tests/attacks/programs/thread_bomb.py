# Threads without end.
# expect: too_many_processes nonzero
# limits: processes=24 wall_s=10
import threading
import time

while True:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
