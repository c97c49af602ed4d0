"""Makes a content folder whose CRC-32 is that of another one, as whoever writes both can."""

from binascii import crc32

COUNT = 64  # letters; 32 would do if each changed another bit


def checksum(content):
    """The CRC-32 of the names and the contents of all files in a content folder."""
    found = 0
    for file in sorted(content.rglob("*.yaml"), key=lambda file: str(file.relative_to(content))):
        found = crc32(file.read_bytes(), crc32(str(file.relative_to(content)).encode(), found))
    return found


def forge(content, wanted):
    """Append a comment to the last file of a content folder, so that its checksum is `wanted`."""
    last = content / "tracks.yaml"
    last.write_bytes(last.read_bytes() + b"# ")
    before = checksum(content)
    plain = crc32(b"b" * COUNT, before)
    rows = []  # what a `c` in the place of a `b` changes, and in which places that is; CRC-32 is linear
    for place in range(COUNT):
        letters = bytearray(b"b" * COUNT)
        letters[place] = ord("c")
        change, places = crc32(letters, before) ^ plain, 1 << place
        for other, others in rows:
            if change ^ other < change:
                change, places = change ^ other, places ^ others
        if change:
            rows.append((change, places))
            rows.sort(reverse=True)
    change, places = wanted ^ plain, 0
    for other, others in rows:
        if change ^ other < change:
            change, places = change ^ other, places ^ others
    comment = bytes(ord("c") if places >> place & 1 else ord("b") for place in range(COUNT))
    last.write_bytes(last.read_bytes() + comment)
    assert checksum(content) == wanted
