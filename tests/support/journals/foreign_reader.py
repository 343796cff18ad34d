"""A reader of the data files made from docs/reference/format.md alone: it imports nothing of ours.

It goes the straightforward way, a byte at a time where that is simplest, and keeps to the order of
the checks in the document. What it reads are plain dictionaries. Only the tests use it: where it and
the program differ, one of the two, or the document, is wrong.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import xxhash

Fields = dict[str, Any]
Layout = tuple[tuple[str, int], ...]

MASK = 2**64 - 1
KINDS = {1: "ADD", 2: "DELIVER", 3: "DELETE", 4: "PUT", 5: "DROP", 6: "GAP"}
PROPERTIES, PRODUCER, MOVED, WHOLE_COMMIT = 1, 2, 4, 8
COLUMN_NAMES = (
    *("kind", "flags", "name", "number", "count", "size", "properties"),
    *("producer", "offset", "commit", "time", "first_time", "hash"),
)
HEADER_FIELDS: Layout = (
    ("magic", 8), ("version", 4), ("header_size", 4), ("database", 16), ("parent", 16), ("parent_sequence", 8),
    ("identity", 8), ("sequence", 8), ("owner", 8), ("next_message", 8), ("next_commit", 8), ("low_water", 8),
    ("created", 8), ("alignment", 4), ("flags", 4), ("previous_sequence", 8), ("previous_identity", 8),
    ("previous_end", 8), ("previous_commit", 8), ("previous_chain", 8),
)  # fmt: skip
FRAME_FIELDS: Layout = (
    ("checksum", 8), ("length", 4), ("meta", 4), ("commit", 8), ("owner", 8), ("synced", 8), ("time", 8),
    ("operations", 4), ("flags", 4),
)  # fmt: skip
SUMMARY_FIELDS: Layout = (
    ("magic", 8), ("size", 8), ("rows", 8), ("end", 8), ("frames", 8), ("last_commit", 8), ("chain", 8),
    ("successor", 8), ("successor_identity", 8), ("columns", 8), ("ranges", 144), ("flags", 8),
)  # fmt: skip


class Refused(Exception):
    """Something that the document does not know."""


class Bytes:
    """Takes numbers and bytes from a place onwards."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def bytes(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        if len(part) < size:
            raise Refused(f"cut off at {self.at}")
        self.at += size
        return bytes(part)

    def number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.bytes(size), "little", signed=signed)

    def numbers(self, size: int, count: int, *, signed: bool = False) -> list[int]:
        return [self.number(size, signed=signed) for _ in range(count)]

    def fields(self, table: Layout) -> Fields:
        found: Fields = {}
        for name, size in table:
            raw = self.bytes(size)
            opaque = size > 8 or name == "magic"
            found[name] = raw if opaque else int.from_bytes(raw, "little", signed=name in ("created", "time"))
        return found


def xxh3(data: bytes, seed: int = 0) -> int:
    return xxhash.xxh3_64_intdigest(data, seed & MASK)


# File header.


def header(data: bytes) -> Fields | None:
    """Return one copy's fields, or None when it is rotted."""
    if len(data) < 256 or data[:8] != bytes.fromhex("894f4d534a0d0a1a"):
        return None
    if xxh3(data[:248]) != int.from_bytes(data[248:256], "little"):
        return None
    found = Bytes(data).fields(HEADER_FIELDS)
    if found["version"] != 1:
        raise Refused(f"version {found['version']}")
    if found["header_size"] != 256 or found["flags"] or found["alignment"] not in [8 << n for n in range(10)]:
        raise Refused("header values")
    return found


def file_header(data: bytes, sequence: int) -> Fields | None:
    """Return the fields of the first good copy of this file's, the footer's included; None when all are rotted."""
    foot = footer(data, None)
    good = [found for found in (header(data[:256]), header(data[512:768]), foot and foot["header"]) if found]
    own = [found for found in good if found["sequence"] == sequence]
    if good and not own:
        raise Refused("renamed")
    return own[0] if own else None


# Frames and records.


def frame(data: bytes, at: int, limit: int, identity: int) -> Fields | None:
    """Return a frame with its records and payloads, or None when there is none at this place."""
    if at + 56 > limit:
        return None
    found = Bytes(data, at).fields(FRAME_FIELDS)
    length, meta = found["length"], found["meta"]
    if not length or length > 2**30 + 2**20 or length % 8 or length < 56 + meta or at + 56 + meta > limit:
        return None
    if xxh3(data[at + 8 : at + 56 + meta], identity + at) != found["checksum"]:
        return None
    if at + length > limit:
        return None
    found["at"], found["end"] = at, at + length
    try:
        found["records"], found["is_known"] = content(data, found), True
    except Refused:
        found["records"], found["is_known"] = [], False
    return found


def content(data: bytes, found: Fields) -> list[Fields]:
    """Return a frame's records with their payloads."""
    if found["flags"] & ~1:
        raise Refused("frame flags")
    at, meta = found["at"], found["meta"]
    listed = records(data[at + 56 : at + 56 + meta])
    behind = Bytes(data, at + 56 + meta)
    if found["flags"]:
        if found["operations"] or [one["kind"] for one in listed] not in ([], ["GAP"]):
            raise Refused("a gap that holds something")
    else:
        count = sum(one["count"] if one["kind"] in ("ADD", "DELIVER", "DELETE") else 1 for one in listed)
        if count > 1_000_000 or any(one["kind"] == "GAP" for one in listed):
            raise Refused("records of a commit")
        for one in listed:
            sizes = one["sizes"] if one["kind"] == "ADD" else [one["count"]] * (one["kind"] == "PUT")
            one["payloads"] = [behind.bytes(size) for size in sizes]
        if count != found["operations"] or behind.at + -(behind.at - at) % 8 != found["end"]:
            raise Refused("sums of a frame")
    highest = -1
    for one in listed:
        check_record(one)
        if one["kind"] == "ADD" and not one["flags"] & MOVED:
            if one["number"] <= highest:
                raise Refused("numbers that go back")
            highest = one["numbers"][-1]
    return listed


def check_record(one: Fields) -> None:
    for name in (one["name"], one["producer"]):
        try:
            name.decode()
        except UnicodeDecodeError:
            raise Refused("a name that is not UTF-8") from None
    if one["kind"] == "ADD" and any(map(int.__gt__, one["property_sizes"], one["sizes"])):
        raise Refused("properties longer than their message")
    if one["kind"] == "ADD" and max(one["numbers"]) >= 2**63:
        raise Refused("a number behind the last one")
    if one["kind"] in ("DELIVER", "DELETE"):
        number_set(one["number"], one["count"], one["set"])


def records(data: bytes) -> list[Fields]:
    source, found = Bytes(data), []
    while source.at < len(data):
        found.append(record(source))
    return found


def record(source: Bytes) -> Fields:
    start = source.at
    kind, flags, name_size, extra = source.bytes(4)
    one: Fields = {"kind": KINDS.get(kind), "flags": flags, "count": source.number(4), "number": source.number(8)}
    allowed = {"ADD": 15, "PUT": MOVED}.get(one["kind"], 0)
    is_wrong = one["kind"] is None or flags & ~allowed or not name_size or bool(extra) != bool(flags & PRODUCER)
    if is_wrong or (flags & WHOLE_COMMIT and not extra) or (kind <= 3 and not one["count"]):
        raise Refused("record")
    count = one["count"]
    if one["kind"] == "ADD":
        one["checksums"] = source.numbers(8, count)
        one["hashes"] = source.numbers(8, count) if flags & PROPERTIES else one["checksums"]
        following = range(one["number"], one["number"] + count)
        one["numbers"] = source.numbers(8, count) if flags & MOVED else list(following)
        one["first_times"] = source.numbers(8, count, signed=True) if flags & MOVED else None
        one["sizes"] = source.numbers(4, count)
        one["property_sizes"] = source.numbers(4, count) if flags & PROPERTIES else [0] * count
    elif one["kind"] in ("DELIVER", "DELETE"):
        one["set"] = source.bytes(source.number(4))
    one["name"], one["producer"] = source.bytes(name_size), source.bytes(extra)
    source.bytes(-(source.at - start) % 8)
    return one


def number_set(first: int, count: int, coded: bytes) -> list[int]:
    """Return the numbers of a set."""
    lengths: list[int] = []
    value = shift = 0
    for byte in coded:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            lengths.append(value)
            value, shift = 0, 0
    lengths = lengths or [1]
    if sum(lengths[::2]) != count or not all(lengths[::2]):
        raise Refused("set")
    found: list[int] = []
    at = first
    for index, length in enumerate(lengths):
        if index % 2 == 0:
            found += range(at, at + length)
        at += length
    if shift or len(lengths) % 2 == 0 or len(found) != count or found[-1] >= 2**63:
        raise Refused("set")
    return found


def properties(data: bytes) -> dict[str, str]:
    source, found = Bytes(data), {}
    while source.at < len(data):
        key = source.bytes(source.number(2)).decode()
        found[key] = source.bytes(source.number(2)).decode()
    return found


def operations(found: Fields) -> list[Fields]:
    """Return a frame's operations as dictionaries, in order."""
    listed: list[Fields] = []
    if found["flags"] & 1 or not found["is_known"]:
        return listed
    for one in found["records"]:
        common: Fields = {
            "offset": found["at"],
            "commit": found["commit"],
            "owner": found["owner"],
            "time": found["time"],
        }
        common["operation"] = one["kind"]
        name = one["name"].decode()
        if one["kind"] == "ADD":
            for index, number in enumerate(one["numbers"]):
                listed.append({**common, **added(one, index), "queue": name, "message": number})
        elif one["kind"] in ("DELIVER", "DELETE"):
            for number in number_set(one["number"], one["count"], one["set"]):
                listed.append({**common, "queue": name, "message": number})
        elif one["kind"] == "PUT":
            is_bad = xxh3(one["payloads"][0]) != one["number"]
            is_moved = bool(one["flags"] & MOVED)
            value = {"key": name, "payload": one["payloads"][0], "damaged": is_bad, "moved": is_moved}
            listed.append({**common, **value})
        else:
            listed.append({**common, "key": name})
    return listed


def added(one: Fields, index: int) -> Fields:
    data = one["payloads"][index]
    of_properties = one["property_sizes"][index]
    is_bad = xxh3(data) != one["checksums"][index]
    found: Fields = {"payload": data[of_properties:], "damaged": is_bad, "producer": one["producer"].decode()}
    found["properties"] = {} if is_bad else properties(data[:of_properties])
    if one["flags"] & MOVED:
        found["moved"], found["first_time"] = True, one["first_times"][index]
    return found


# Walking.


def walk(data: bytes, head: Fields, ending: int | None) -> tuple[list[Fields], list[tuple[int, int]]]:
    """Return (frames, bad ranges) up to a known ending, or as far as they go."""
    alignment, identity = head["alignment"], head["identity"]
    limit = len(data) if ending is None else min(ending, len(data))
    at = -(-768 // alignment) * alignment
    sealed = sealed_at(data)
    if ending is None and sealed is not None and sealed >= at:
        limit = sealed
    else:
        sealed = None
    frames: list[Fields] = []
    bad: list[tuple[int, int]] = []
    footer_place = at
    while at < limit:
        one = frame(data, at, limit, identity)
        if one is not None:
            frames.append(one)
            bad += [] if one["is_known"] else [(at, one["end"])]
            at = one["end"]
            footer_place = -(-at // alignment) * alignment
            continue
        group = -(-at // alignment) * alignment
        if at < group < limit and not any(data[at:group]):
            one = frame(data, group, limit, identity)
            if one is not None and (not frames or is_next(frames[-1], one)):
                at = group
                continue
        if ending is None and not any(data[at:limit]):
            break
        if ending is None and group == footer_place and data[group : group + 8] == b"OMSFOOT1":
            break
        following = range(at + 8, limit, 8)
        end = next((place for place in following if frame(data, place, limit, identity) is not None), None)
        if end is None:
            content = len(bytes(data[:limit]).rstrip(b"\0"))
            end = min(limit, content + -content % 8) if ending is None else ending
        bad.append((at, end))
        at = end
    if sealed is not None and footer_place != sealed:  # nobody knows where the last frames ended: up to the footer
        if bad and bad[-1][1] == at:
            bad[-1] = (bad[-1][0], sealed)
        else:
            bad.append((at, sealed))
    if ending is not None and at < ending and (not bad or bad[-1][1] < ending):
        bad.append((at, ending))
    return frames, bad


def is_next(before: Fields, one: Fields) -> bool:
    return bool((before["flags"] | one["flags"]) & 1) or one["commit"] == before["commit"] + 1


def sealed_at(data: bytes) -> int | None:
    """Return where a footer begins, good or not, as one of its ends says."""
    size = int.from_bytes(data[-16:-8], "little") if data[-8:] == b"1ATOOFSM" else None
    for start in (data.rfind(b"OMSFOOT1"), -1 if size is None else len(data) - size):
        begins = int.from_bytes(data[start + 8 : start + 16], "little") == len(data) - start
        begins = begins and data[start : start + 8] == b"OMSFOOT1"
        if start >= 768 and start % 8 == 0 and (begins or size == len(data) - start):
            return start
    return None


def chain(frames: Iterable[Fields]) -> int:
    return xxh3(b"".join(one["checksum"].to_bytes(8, "little") for one in frames))


# Footer.


def footer(data: bytes, identity: int | None) -> Fields | None:
    """Return a good footer's fields and columns, None when there is none."""
    if data[-8:] != b"1ATOOFSM" or len(data) < 32:
        return None
    file_checksum, checksum, size = Bytes(data, len(data) - 32).numbers(8, 3)
    if not 520 <= size <= len(data) - 768:
        return None
    begin = len(data) - size
    found = Bytes(data, begin).fields(SUMMARY_FIELDS)
    head = header(data[begin + 232 : begin + 488])
    if found["magic"] != b"OMSFOOT1" or head is None or identity not in (None, head["identity"]):
        return None
    if xxh3(data[begin : len(data) - 24], head["identity"]) != checksum:
        return None
    if found["size"] != size or -(-found["end"] // head["alignment"]) * head["alignment"] != begin:
        return None
    if found["flags"] & ~3:
        raise Refused("footer flags")
    found["header"], found["file_checksum"], found["begin"] = head, file_checksum, begin
    found["ranges"] = Bytes(found["ranges"]).numbers(8, 18, signed=True)
    found["column"], found["blob"] = columns(data, begin + 488, found["columns"], found["rows"])
    return found


def columns(data: bytes, at: int, count: int, rows: int) -> tuple[dict[str, list[int]], dict[int, tuple[int, bytes]]]:
    directory, numbers, blobs = Bytes(data, at), {}, {}
    body = Bytes(data, at + 32 * count)
    for _ in range(count):
        number, width = directory.bytes(2)
        directory.bytes(6)
        base, step, size = directory.numbers(8, 3)
        part = body.bytes(size)
        body.bytes(-size % 8)
        if 1 <= number <= 13 and width in (0, 1, 2, 4, 8) and size == width * rows:
            steps = [step * row for row in range(rows)] if width == 0 else Bytes(part).numbers(width, rows)
            values = [(base + step) & MASK for step in steps]
            name = COLUMN_NAMES[number - 1]
            is_time = name in ("time", "first_time")
            numbers[name] = [value - (value >> 63 << 64) if is_time else value for value in values]
        elif 32 <= number <= 35 and width == 255:
            blobs[number] = (base, part)
        elif number <= 13 or 32 <= number <= 35:
            raise Refused("column")
    if len(numbers) != 13 or len(blobs) != 4:
        raise Refused("columns missing")
    return numbers, blobs


def names(blob: tuple[int, bytes]) -> list[str]:
    count, part = blob
    source = Bytes(part)
    return [source.bytes(source.number(1)).decode() for _ in range(count)]


def rows(foot: Fields) -> list[Fields]:
    """Return a footer's rows as dictionaries; sets as lists of numbers."""
    named, producers = names(foot["blob"][32]), ["", *names(foot["blob"][33])]
    sets, heads = Bytes(foot["blob"][34][1]), Bytes(foot["blob"][35][1])
    listed = []
    for values in zip(*(foot["column"][name] for name in COLUMN_NAMES), strict=True):
        row: Fields = dict(zip(COLUMN_NAMES, values, strict=True))
        row["kind"], row["name"] = KINDS[row["kind"]], named[row["name"]]
        row["producer"] = producers[row["producer"]]
        if row["kind"] in ("DELIVER", "DELETE"):
            row["set"] = number_set(row["number"], row["count"], sets.bytes(row["size"]))
        if row["kind"] == "PUT":
            row["head"] = heads.bytes(min(row["size"], 128))
        listed.append(row)
    return listed


# A directory.


def directory(path: Path) -> list[Fields]:
    """Return the files that count, in order, each with its frames, bad ranges, and what is vouched for."""
    found: dict[int, Fields] = {}
    there = set()
    for entry in path.iterdir():
        match = re.fullmatch(r"omsmsg-([0-9]{10})\.data", entry.name)
        if match and int(match[1]):
            data = entry.read_bytes()
            there.add(int(match[1]))
            if any(data):
                found[int(match[1])] = {"data": data, "header": file_header(data, int(match[1]))}
    drop_late(found)
    lock = path / "omsmsg.lock"
    check_lineage(found, there, lock.read_bytes() if lock.exists() else b"")
    mark = max([file["header"]["low_water"] for file in found.values() if file["header"]], default=0)
    for file in found.values():
        head = file["header"]
        if head and head["previous_sequence"] in found:
            found[head["previous_sequence"]]["named"] = head
    listed = []
    promised = 0  # the file that the footer before it names: its first group was durable
    for sequence, file in sorted(found.items()):
        if sequence >= mark:
            listed.append(dict(read_file(file, is_promised=sequence == promised), sequence=sequence))
            promised = listed[-1]["footer"]["successor"] if listed[-1]["footer"] else 0
    marks = [one["payload"] for file in listed for one in file["operations"] if one.get("key") == "\0low-water"]
    mark = max([int.from_bytes(value, "little") for value in marks], default=0)
    return [file for file in listed if file["sequence"] >= mark]


def drop_late(found: dict[int, Fields]) -> None:
    owner, previous = 0, 0
    for sequence in sorted(found):
        head = found[sequence]["header"]
        if head and head["owner"] < owner:
            del found[sequence]
            continue
        if head:
            owner, previous = head["owner"], head["previous_sequence"]
            for skipped in [one for one in found if 0 < previous < one < sequence]:
                other = found[skipped]["header"]
                if not other or other["owner"] < owner:
                    del found[skipped]


def check_lineage(found: dict[int, Fields], there: set[int], lock: bytes) -> None:
    heads = {sequence: file["header"] for sequence, file in found.items() if file["header"]}
    owners, marks = ([head[field] for head in heads.values()] for field in ("owner", "low_water"))
    lines = [line for line in (lock[:27], lock[512:539]) if re.fullmatch(rb"owner [0-9]{20}\n", line)]
    is_home = bool(lines) and int(lines[0][6:]) >= max(owners, default=0)
    told = {sequence: head for sequence, head in heads.items() if head["created"]}
    mine = None
    for sequence in sorted(told, reverse=True):
        head = told[sequence]
        if mine and head["database"] != mine["database"]:
            last = mine["parent_sequence"]
            is_lost = last not in told and (last in there or (is_home and last >= max(marks)))
            known = head["database"] == mine["parent"] or (is_lost and any(mine["parent"]))
            if sequence > last or not known:
                raise Refused("another database")
            mine = head
        mine = mine or head


def read_file(file: Fields, *, is_promised: bool = False) -> Fields:
    data, head, named = file["data"], file["header"], file.get("named")
    if head is None:
        if named is None:
            raise Refused("no header")
        head = {"identity": named["previous_identity"], "alignment": 8}
    foot = footer(data, head["identity"])
    ending = named["previous_end"] if named else foot["end"] if foot else None
    frames, bad = walk(data, head, ending)
    proof = sealed_at(data) if ending is None else ending
    start = -(-768 // head["alignment"]) * head["alignment"]
    is_proved = proof is not None and (ending is not None or proof >= start)
    vouched = proof if is_proved else max([one["synced"] for one in frames], default=0)
    if is_promised and not is_proved:
        vouched = max(vouched, start + 1)
    listed = []
    for one in frames:
        listed += [dict(operation, vouched=one["at"] < vouched) for operation in operations(one)]
    gaps = [(one["at"], one["end"]) for one in frames if one["flags"] & 1 and one["is_known"]]
    return {
        "footer": foot, "frames": frames, "bad": bad, "gaps": gaps, "operations": listed, "vouched": vouched,
        "named": named, "header": head,
    }  # fmt: skip


def state(files: Iterable[Fields]) -> tuple[dict[int, Fields], dict[str, bytes]]:
    """Return what is live: messages by their number, values by their key."""
    messages: dict[int, Fields] = {}
    keys: dict[str, bytes] = {}
    for file in files:
        for one in file["operations"]:
            if one["operation"] == "ADD":
                if one["message"] not in messages:
                    messages[one["message"]] = one
            elif one["operation"] in ("DELIVER", "DELETE"):
                messages.pop(one["message"], None)
            elif one["operation"] == "PUT":
                keys[one["key"]] = one["payload"]
            else:
                keys.pop(one["key"], None)
    return messages, keys
