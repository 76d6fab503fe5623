#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The text of a program (README.md) as a Chakra trace, and a Chakra trace as such a text."""
import re
import struct

COMP, SEND, RECV, COLL = 4, 5, 6, 7
KINDS = {"AR": 0, "AG": 2, "BC": 5, "AA": 6, "RS": 7}


def varint(value):
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def piece(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def attr(name, field, value):
    """Field: 9 int64, 13 uint64, 7 int32, 27 bool, 29 text, 28 list of bool."""
    body = piece(1, name.encode())
    body += piece(field, value) if isinstance(value, bytes) else number(field, value)
    return piece(10, body)


def attrs_of(word):
    """Type, duration in us, and attributes of a node."""
    on_host = word[0] in "hn"
    host = attr("is_cpu_op", 27, 1) if on_host else b""
    if word[0] in "cgh":
        device = attr("is_cpu_op", 27, 0) if word[0] == "g" else b""
        return COMP, int(word[1:]), host + device
    if word[0] == "f":
        ops, size = word[1:].split(":")
        return COMP, 0, attr("num_ops", 9, int(ops)) + attr("tensor_size", 13, int(size))
    if word[0] in "mn":
        return 1, 0, host
    if word[0] == "i":
        return 0, 0, b""
    if word[0] in "sr":
        peer, tag, size = map(int, word[1:].split("."))
        send = word[0] == "s"
        return (SEND if send else RECV), 0, (
            attr("comm_size", 9, size) + attr("comm_tag", 7, tag) +
            attr("comm_dst" if send else "comm_src", 7, peer) + attr("is_cpu_op", 7, 0))
    kind, size, group, mask = re.fullmatch(r"([A-Z]{2})(\d+)(?:@(\d+))?(?:%([01]+))?", word).groups()
    out = attr("comm_type", 9, KINDS[kind])
    out += attr("comm_size", 9, 0 if kind == "BC" else int(size))
    if group:
        out += attr("pg_name", 29, group.encode())
    if mask:
        flags = bytes(c == "1" for c in mask)
        out += attr("involved_dim", 28, piece(1, flags))
    return COLL, int(size) if kind == "BC" else 0, out


def encode(text):
    """A program -> the bytes of a trace."""
    out = piece(1, b"0.0.4")
    out = varint(len(out)) + out
    for i, word in enumerate(text.split(), 1):
        free, word = word.startswith("!"), word.lstrip("!")
        word, _, control = word.partition("^")
        word, _, data = word.partition("<")
        data = [int(d) for d in data.split(",")] if data else [] if free or i == 1 else [i - 1]
        kind, us, more = attrs_of(word)
        node = number(1, i) + piece(2, b"n%d" % i) + number(3, kind)
        if control:
            node += piece(4, b"".join(varint(int(c)) for c in control.split(",")))
        if data:
            node += piece(5, b"".join(varint(d) for d in data))
        node += (number(7, us) if us else b"") + more
        out += varint(len(node)) + node
    return out


def read_varint(data, i):
    value = shift = 0
    while True:
        byte = data[i]
        value |= (byte & 127) << shift
        i, shift = i + 1, shift + 7
        if byte < 128:
            return value, i


def fields(data):
    i = 0
    while i < len(data):
        key, i = read_varint(data, i)
        if key & 7 == 2:
            n, i = read_varint(data, i)
            yield key >> 3, data[i:i + n]
            i += n
        elif key & 7 == 0:
            value, i = read_varint(data, i)
            yield key >> 3, value
        else:
            n = 8 if key & 7 == 1 else 4
            yield key >> 3, struct.unpack("<d" if n == 8 else "<f", data[i:i + n])[0]
            i += n


def numbers(value):
    out, i = [], 0
    if isinstance(value, int):
        return [value]
    while i < len(value):
        n, i = read_varint(value, i)
        out.append(n)
    return out


def decode_node(data):
    node = {"type": 0, "us": 0, "data": [], "control": []}
    for field, value in fields(data):
        if field in (1, 3, 7):
            node[{1: "id", 3: "type", 7: "us"}[field]] = value
        elif field in (4, 5):
            node["control" if field == 4 else "data"] += numbers(value)
        elif field == 10:
            parts = list(fields(value))
            name = parts[0][1].decode()
            node[name] = parts[1][1] if len(parts) > 1 else None
    return node


def word_of(node):
    if node["type"] == COMP and not node.get("is_cpu_op"):
        assert "is_cpu_op" not in node
        return "f%d:%d" % (node["num_ops"], node["tensor_size"])
    if node["type"] in (SEND, RECV):
        peer = node["comm_dst" if node["type"] == SEND else "comm_src"]
        return "%s%d.%d.%d" % ("s" if node["type"] == SEND else "r", peer, node["comm_tag"],
                               node["comm_size"])
    assert node["type"] == COLL, node
    kind = {v: k for k, v in KINDS.items()}[node["comm_type"]]
    group = node.get("pg_name")
    return "%s%d%s" % (kind, node["comm_size"], "@" + group.decode() if group else "")


def decode(data):
    """The bytes of a trace -> a program. Nodes are numbered anew, in the order of their ids."""
    nodes, i = [], 0
    while i < len(data):
        n, i = read_varint(data, i)
        nodes.append(data[i:i + n])
        i += n
    nodes = sorted((decode_node(n) for n in nodes[1:]), key=lambda n: n["id"])
    place = {n["id"]: str(i) for i, n in enumerate(nodes, 1)}
    words = []
    for i, node in enumerate(nodes, 1):
        deps = [place[d] for d in dict.fromkeys(node["data"])]
        plain = deps == ([str(i - 1)] if i > 1 else [])
        words.append(("" if deps or i == 1 else "!") + word_of(node) +
                     ("" if plain or not deps else "<" + ",".join(deps)) +
                     ("^" + ",".join(place[c] for c in node["control"]) if node["control"] else ""))
    return " ".join(words)
