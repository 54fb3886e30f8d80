"""One log of letters in the bucket: append-only, and read in order from a cursor.

A log has one writer, and its letters have the serials 1, 2, 3 ... A missing object is its end for
now, so the bucket is never listed, and a gap is noticed. Objects that are no letters are skipped
and counted: garbage under stolen credentials cannot block a log.

Limits: the owner of the bucket can hold letters back, or delete them. Then nothing is read and
nothing is done; no letter can be changed, moved or made up.
"""

from collections import Counter
from dataclasses import dataclass, field

from hansa.api import letters
from hansa.api.bucket_documents import sha256
from hansa.api.exchange import Cursor
from hansa.api.letters import Fault, InvalidLetter, Letter, LetterLog, Reply
from hansa.core.errors import Corrupt, NotFound, Precondition, Untrusted
from hansa.crypto import dsse
from hansa.crypto.dsse import SigningKey
from hansa.store.base import ObjectStore

MOST_SKIPPED = 16
"""Objects of one log that are no letters and that one reading looks at; then it is `flooded`."""
MOST_LETTERS = 64
"""Letters of one reading."""


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """A letter in a log."""

    serial: int
    """Its place."""
    letter: Letter
    """The letter."""
    digest: str
    """Its digest."""


@dataclass(frozen=True, kw_only=True)
class NoEntry:
    """An object in a log that is not one of its letters."""

    serial: int
    """Its place."""
    fault: Fault
    """Why it is none."""


@dataclass(kw_only=True)
class Reading:
    """What came out of a log."""

    cursor: Cursor
    """Where the next reading continues."""
    entries: list[LogEntry] = field(default_factory=list)
    """Letters, oldest first."""
    faults: Counter[Fault] = field(default_factory=Counter)
    """What was wrong, and how often."""
    more: bool = False
    """Whether the log may continue: the next reading need not wait."""


@dataclass(frozen=True, kw_only=True)
class Posted:
    """The outcome of posting a letter."""

    cursor: Cursor
    """The writer's last letter, which is this one where it is `done`."""
    done: bool
    """False: too much garbage is in the way; the next run continues after it."""
    ahead: bool
    """Whether the log has letters of ours that we do not remember: a restored backup, or a twin."""
    faults: Counter[Fault]
    """What was wrong with objects in our own log."""


@dataclass(frozen=True, kw_only=True)
class Mailbox:
    """One log: who writes it, and where it lies."""

    store: ObjectStore
    """The bucket."""
    prefix: str
    """The federation's place in it."""
    log: LetterLog
    """Orders or answers."""
    run: str
    """The run whose letters count."""
    environment: str
    """The silo."""
    trusted: tuple[str, ...]
    """Public keys of the writer, as the reader's own spec has them."""

    def look(self, serial: int) -> LogEntry | NoEntry | None:
        """The object with this serial; None: there is none yet.

        An invalid object is read a second time: no checksum of the store covers a range, and a
        letter that was corrupted in transit would be skipped for good.
        """
        data = self._bytes(serial)
        if data is None:
            return None
        entry = self._parse_entry(serial, data)
        if isinstance(entry, NoEntry) and (again := self._bytes(serial)) != data:
            return self._parse_entry(serial, again or b"")
        return entry

    def holds(self, serial: int, digest: str) -> bool:
        """Whether a letter that was read once is still there, also if its key no longer counts."""
        return any(self._digest(serial) == digest for _ in range(2))  # it may lose a bit on its way

    def read(
        self, cursor: Cursor, *, most: int | None = MOST_LETTERS, posted: Cursor | None = None
    ) -> Reading:
        """Letters behind the cursor, up to the end of the log or `most`.

        `posted` is the last order, where the log has answers: one that names it by another digest
        is a lie or a fork. A break in the chain is only reported: one letter that was skipped
        would end the log otherwise.
        """
        reading = Reading(cursor=cursor)
        skipped = 0
        while entry := self.look(reading.cursor.serial + 1):
            if isinstance(entry, LogEntry) and _is_to_another_order(entry.letter, posted):
                entry = NoEntry(serial=entry.serial, fault="order")
            last = reading.cursor.digest
            if isinstance(entry, NoEntry):
                reading.faults[entry.fault] += 1
                skipped += 1
            else:
                if entry.letter.previous != last:
                    reading.faults["chain"] += 1
                reading.entries.append(entry)
                last = entry.digest
            reading.cursor = Cursor(serial=entry.serial, digest=last)
            if skipped == MOST_SKIPPED:
                reading.faults["flooded"] += 1
            if skipped == MOST_SKIPPED or len(reading.entries) == most:
                reading.more = True
                break
        return reading

    def post(self, letter: Letter, cursor: Cursor, key: SigningKey) -> Posted:
        """Write a letter behind our last one; safe to repeat, for the second time finds the first.

        Where its place is taken, our own log is read to its end. A last letter of ours that says
        the same is this one: an answer of the store was lost, or a twin was faster. Any other
        letter of ours means that we are behind, and garbage is left behind.
        """
        self._require_trusted(key)
        faults: Counter[Fault] = Counter()
        ahead = False
        while True:
            placed = letter.place_at(cursor.serial + 1, cursor.digest)
            where = self._key(placed.serial)
            try:
                self.store.put_if_absent(where, letters.write_letter(self.log, placed, key))
            except Precondition:
                reading = self.read(cursor, most=None)
            else:
                cursor = Cursor(serial=placed.serial, digest=letters.digest_letter(placed))
                return Posted(cursor=cursor, done=True, ahead=ahead, faults=faults)
            if reading.cursor == cursor:
                raise Corrupt(f"{where}: the store says that it exists, and has no such object")
            cursor, ours = reading.cursor, [entry.letter for entry in reading.entries]
            faults.update(reading.faults)
            is_there = not reading.more and bool(ours) and ours[-1].has_same_content(letter)
            ahead = ahead or len(ours) > is_there
            if is_there or reading.more:
                return Posted(cursor=cursor, done=is_there, ahead=ahead, faults=faults)

    def _require_trusted(self, key: SigningKey) -> None:
        if key.public not in self.trusted:
            raise Untrusted(
                f"signing key: got that of {key.public}, which is not among this party's "
                f"publicKeys, expected {' or '.join(self.trusted)}",
                hint="the others would skip what it signs: name its public key first",
            )

    def _key(self, serial: int) -> str:
        return self.log.key(self.prefix, self.environment, serial)

    def _bytes(self, serial: int) -> bytes | None:
        try:
            return self.store.get_range(self._key(serial), 0, self.log.limit + 1)
        except NotFound:
            return None

    def _digest(self, serial: int) -> str:
        try:
            return sha256(dsse.read_unverified_payload(self._bytes(serial) or b""))
        except dsse.Unverified:
            return ""

    def _parse_entry(self, serial: int, data: bytes) -> LogEntry | NoEntry:
        try:
            letter, digest = letters.read_letter(
                self.log,
                data,
                trusted=self.trusted,
                run=self.run,
                environment=self.environment,
                serial=serial,
            )
        except InvalidLetter as refusal:
            return NoEntry(serial=serial, fault=refusal.code)
        return LogEntry(serial=serial, letter=letter, digest=digest)


def _is_to_another_order(letter: Letter, posted: Cursor | None) -> bool:
    if posted is None or not isinstance(letter, Reply) or letter.order.serial != posted.serial:
        return False
    return letter.order.digest != posted.digest
