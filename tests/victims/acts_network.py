"""Acts on sockets: reaching what listens outside."""

import ctypes
import os
import socket
import struct
import tempfile
import threading
import time

TIMEOUT = 3


def connect_unix(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(TIMEOUT)
        peer.connect(path)
        return peer.recv(64).decode()


def connect_unix_relative(directory, name):
    """A path socket's address holds 107 bytes: go there first."""
    os.chdir(directory)
    try:
        return connect_unix(name)
    finally:
        os.chdir("/")


def connect_abstract(name):
    return connect_unix("\0" + name)


def connect_tcp(host, port):
    with socket.create_connection((host, port), TIMEOUT) as peer:
        return peer.recv(64).decode()


def send_udp(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.sendto(b"owned", (host, port))
    return "sent"


def send_udp_by_sendmsg(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.sendmsg([b"owned"], [], 0, (host, port))
    return "sent"


def send_unix_datagram(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        peer.sendto(b"owned", path)
    return "sent"


def send_unix_datagram_from_pair(path):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendmsg([b"owned"], [], 0, path)
    return "sent"


def make_socket(family, kind, protocol=0):
    socket.socket(family, kind, protocol).close()
    return "made"


def interfaces():
    return ",".join(name for _, name in socket.if_nameindex())


def bind_unix(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
        own.bind(path)
    return "bound"


def talk_inside():
    """Two ends inside the sandbox: TCP on loopback, and a path socket in a private /tmp."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname(), TIMEOUT) as one, listener.accept()[0] as other:
            other.sendall(b"tcp")
            said = one.recv(8).decode()
    path = tempfile.mktemp(dir="/tmp")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            one.connect(path)
            with listener.accept()[0] as other:
                other.sendall(b"unix")
                said += one.recv(8).decode()
    os.unlink(path)
    return said


def credentials_of_peer(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(path)
        return str(struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)))


# Ways around the name service and the decision at connect


def look_up(name):
    try:
        return socket.gethostbyname(name)
    except socket.gaierror as error:
        raise FileNotFoundError(2, str(error)) from error


def tunnel_by_name(name, kind):
    """Ask for a record of a name: whoever serves the domain reads the name."""
    labels = b"".join(bytes((len(label),)) + label.encode() for label in name.split("."))
    question = struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", kind, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(TIMEOUT)
        peer.connect(("127.0.0.1", 53))
        peer.send(question)
        answer = peer.recv(4096)
    code, count = answer[3] & 15, struct.unpack_from(">H", answer, 6)[0]
    if code or not count:
        raise FileNotFoundError(2, f"code {code}, {count} records")
    return "answered"


def connect_any(host, port, family=socket.AF_INET):
    """As `connect_tcp`, to an address of any spelling, without a look-up."""
    with socket.socket(family) as peer:
        peer.settimeout(TIMEOUT)
        peer.connect((host, port))
        return peer.recv(64).decode()


def connect_in_the_first_packet(host, port, by_sendmsg):
    with socket.socket() as peer:
        peer.settimeout(TIMEOUT)
        if by_sendmsg:
            peer.sendmsg([b"owned"], [], socket.MSG_FASTOPEN, (host, port))
        else:
            peer.sendto(b"owned", socket.MSG_FASTOPEN, (host, port))
        return peer.recv(64).decode()


def connect_udp(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.connect((host, port))
        peer.send(b"owned")
    return "sent"


def connect_to_no_family(host, port):
    """sendto takes AF_UNSPEC for IPv4."""
    address = bytearray(struct.pack("=H", 0) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8))
    libc = ctypes.CDLL(None, use_errno=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        if libc.sendto(peer.fileno(), b"owned", 5, 0, bytes(address), 16) == -1:
            raise OSError(ctypes.get_errno(), "sendto")
    return "sent"


def connect_by_changed_address(host, port, other, seconds):
    """Offer an address inside, and change it to the one that is wanted while the call is decided on."""

    def packed(port):
        return struct.pack("=H", 2) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)

    wanted, harmless = packed(port), packed(other)
    buffer = ctypes.create_string_buffer(harmless, 16)
    libc = ctypes.CDLL(None, use_errno=True)
    end = time.monotonic() + seconds

    def change():
        while time.monotonic() < end:
            ctypes.memmove(buffer, wanted, 16)
            ctypes.memmove(buffer, harmless, 16)

    threading.Thread(target=change).start()
    with socket.create_server((host, other)):
        while time.monotonic() < end:
            with socket.socket() as peer:
                peer.settimeout(0.05)
                if libc.connect(peer.fileno(), buffer, 16) == 0 and peer.getpeername()[1] == port:
                    return peer.recv(64).decode()
    raise PermissionError(13, "never reached")


def bind_address(host, port, family=socket.AF_INET):
    with socket.socket(family) as own:
        own.bind((host, port))
    return "bound"


def connect_later(host, port, path, delay):
    """Connect when the call is over, and leave what came of it in a file."""

    def later():
        time.sleep(delay)
        try:
            said = connect_tcp(host, port)
        except OSError as error:
            said = str(error)
        with open(path + ".new", "w") as file:
            file.write(said)
        os.rename(path + ".new", path)

    threading.Thread(target=later).start()
    return "later"
