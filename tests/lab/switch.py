"""A learning Ethernet switch joins more than two interfaces: sockets that carry one frame per
datagram."""

import select
import socket
import threading

FRAME_MAX = 65536
SOCKET_BYTES = 1 << 20


def wire():
    """Returns a cable: two ends, one for each side."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        end.set_inheritable(True)
    return ends


class Switch:
    """Thread: its own, from start() to stop(). A frame for a port that is full is dropped, as
    hardware does, and so is one that is longer than `longest`."""

    def __init__(self, ports, longest=FRAME_MAX):
        self._ports, self._learned, self._longest = ports, {}, longest
        self._stop_read, self._stop_write = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for port in ports:
            port.setblocking(False)

    def start(self):
        self._thread.start()

    def stop(self):
        self._stop_write.close()
        self._thread.join()
        for end in self._ports + [self._stop_read]:
            end.close()

    def _run(self):
        poll = select.poll()
        by_fd = {port.fileno(): port for port in self._ports}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        poll.register(self._stop_read, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd not in by_fd:
                    return
                if not self._drain(by_fd[fd]):
                    poll.unregister(fd)

    def _drain(self, port):
        """Passes a port's frames on. Returns False if nobody is at its other end any more."""
        try:
            for _ in range(64):
                frame = port.recv(FRAME_MAX)
                if not frame:
                    return False
                if len(frame) <= self._longest:
                    self._forward(port, frame)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _forward(self, source, frame):
        target, sender = frame[0:6], frame[6:12]
        self._learned[sender] = source
        known = None if target[0] & 1 else self._learned.get(target)
        for port in (known,) if known else self._ports:
            if port is source:
                continue
            try:
                port.send(frame)
            except OSError:
                pass
