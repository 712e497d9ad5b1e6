"""Progress of a long pass on the terminal: a bar with rate and ETA, or plain lines where a bar would be noise."""

from __future__ import annotations

import importlib
import os
import sys
import time
from types import TracebackType
from typing import Any, TextIO

__all__ = ["Progress", "counted", "human_count", "human_seconds"]


def human_count(value: float) -> str:
    """Shorten a count for people: ``4123456`` becomes ``4.12 M``."""
    if abs(value) >= 1e9:
        return f"{value / 1e9:.2f} G"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.2f} M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.1f} k"
    return f"{value:.0f}"


def counted(number: int, word: str) -> str:
    """Write a number with its noun: ``1 file``, ``20 files``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def human_seconds(seconds: float) -> str:
    """Write a duration in the two largest units that matter."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _tqdm_class() -> Any:
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError:
        return None

    # tqdm's monitor is a Python thread that would compete for the GIL with the loop that is being timed.
    return type("Bar", (tqdm,), {"monitor_interval": 0})


class Progress:
    """Show how far a pass is, on standard error.

    Parameters
    ----------
    label : str
        The name of the work.
    total : int or None
        Number of units in the whole pass; None when it is not known, and then there is no ETA.
    unit : str
        Plural name of what is counted.
    stream : file, optional
        Where to write, by default ``sys.stderr``.
    interval : float, default 2.0
        Seconds between plain lines.

    Notes
    -----
    On a terminal, and with tqdm installed, this is a tqdm bar; otherwise a line at the start, one per `interval` and
    one at the end. A stream that was closed is ignored: losing the progress must not lose the work.
    """

    def __init__(
        self, label: str, total: int | None, unit: str, stream: TextIO | None = None, interval: float = 2.0
    ) -> None:
        self._label = label
        self._total = total
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._interval = interval
        self._done = 0
        self._note = ""
        self._start = time.monotonic()
        self._next_line = self._start + interval
        self._bar: Any = None
        if self._stream is not None and self._stream.isatty():
            bar_class = _tqdm_class()
            if bar_class is not None:
                # A terminal that doesn't know its size says 0 by 0, and tqdm would then show nothing.
                known = os.get_terminal_size(self._stream.fileno()).columns > 0
                size = {"dynamic_ncols": True} if known else {"ncols": 80, "nrows": 24}
                self._bar = bar_class(
                    total=total, desc=label, unit=f" {unit}", unit_scale=True, file=self._stream, **size
                )
        if self._bar is None:
            self._write(f"{label}: 0 of {total:,} {unit}" if total is not None else f"{label}: started")

    def __enter__(self) -> Progress:
        """Return this report."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.close()

    @property
    def done(self) -> int:
        """Units counted so far."""
        return self._done

    def note(self, text: str) -> None:
        """Attach a short text (a loss, a file name) to what is shown next."""
        self._note = text
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=False)

    def update(self, count: int) -> None:
        """Count `count` more units as done."""
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
            return
        now = time.monotonic()
        if now >= self._next_line and self._done != self._total:  # the last state is for close()
            self._next_line = now + self._interval
            self._line(now)

    def close(self) -> None:
        """Write the last state and release the terminal line. Calling it twice does no harm."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        elif self._stream is not None:
            self._line(time.monotonic())
        self._stream = None

    def _line(self, now: float) -> None:
        elapsed = max(now - self._start, 1e-9)
        rate = self._done / elapsed
        parts = [f"{self._label}: {self._done:,}"]
        if self._total is not None:
            share = 100 * self._done / self._total if self._total else 100.0
            parts.append(f" of {self._total:,} {self._unit} ({share:.0f}%)")
        else:
            parts.append(f" {self._unit}")
        parts.append(f", {human_count(rate)} {self._unit}/s")
        if self._total is not None and 0 < self._done < self._total:
            parts.append(f", ETA {human_seconds((self._total - self._done) / rate)}")
        else:
            parts.append(f", {human_seconds(elapsed)}")
        if self._note:
            parts.append(f", {self._note}")
        self._write("".join(parts))

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            print(text, file=self._stream, flush=True)
        except (OSError, ValueError):
            self._stream = None
