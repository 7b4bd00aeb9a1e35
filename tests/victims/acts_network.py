"""Acts on sockets: reaching what listens outside."""

import os
import socket
import struct
import tempfile

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
