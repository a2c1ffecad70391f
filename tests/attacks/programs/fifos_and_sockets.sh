# FIFOs and sockets where the host expects files.
# expect: ok
mkfifo main.py program; mkdir d; mkfifo d/x
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")' 2>/dev/null; exit 0
