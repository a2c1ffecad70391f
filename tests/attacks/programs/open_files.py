# Every descriptor, by every kind of object, in every process.
# expect: nonzero
# limits: open_files=64
import os

held = []
try:
    while True:
        held += [*os.pipe(), os.eventfd(1), os.open("/dev/null", os.O_RDWR), os.pidfd_open(os.getpid())]
finally:
    if len(held) > 64:
        print("BREACH", len(held))
