"""A terminal for tests: a command runs on it, and what it would show is read."""

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios


class Screen:
    """``lines`` that the terminal has shown, those that scrolled away too; ``seen``: every state of the last ones."""

    def __init__(self, rows=40, columns=100):
        self.size = rows, columns
        self.lines, self.row, self.column, self.seen = [""], 0, 0, []

    def feed(self, text):
        """Do what a terminal does with text, returns, line feeds, steps upwards and clearing; colours do nothing."""
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", text):
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif part == "\x1b[A":
                self.row -= 1
            elif part == "\x1b[K":
                self.lines[self.row] = self.lines[self.row][: self.column]
            elif part.endswith("m"):
                continue
            else:
                assert not part.startswith("\x1b"), f"this terminal does not know {part!r}"
                old = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = old[: self.column] + part + old[self.column + len(part) :]
                self.column += len(part)
                self.seen.append("\n".join(line.rstrip() for line in self.lines[-12:]))

    @property
    def text(self):
        """All that is to be read, without what was overwritten."""
        return "\n".join(line.rstrip() for line in self.lines)


def shown(command, rows=40, columns=100, **more):
    """Run ``command`` on a terminal of its own; return (exit status, its Screen)."""
    screen = Screen(rows, columns)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, **more)
    os.close(theirs)
    decoder, rest = codecs.getincrementaldecoder("utf-8")(), ""
    with open(ours, "rb", buffering=0) as stream:
        while True:
            try:
                text = rest + decoder.decode(stream.read(65536))
            except OSError:  # the last process has closed the terminal
                break
            rest = re.search(r"(\x1b(\[[0-9;]*)?)?$", text)[0]
            screen.feed(text[: len(text) - len(rest)])
    return process.wait(timeout=60), screen
