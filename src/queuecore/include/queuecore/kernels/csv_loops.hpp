// The loops of kernels/csv.hpp over plain text. Included there once for each kind of processor, in a namespace that has a
// marks_of() for 64 bytes, with QC_TARGET for the attributes of functions: one compiled for a newer processor can't be
// inlined where another calls it.

QC_TARGET inline CsvPlain plain(const CsvMarks& m, uint64_t quotes, uint64_t* carriage) noexcept {
  uint64_t lone = ((m.carriage << 1) | *carriage) & ~m.feed;  // the byte after a carriage return on its own
  uint64_t bad = lone | (m.quote & quotes);
  uint64_t good = bad == 0 ? ~uint64_t(0) : (bad & (0 - bad)) - 1;
  *carriage = m.carriage >> 63;
  return {m.feed & good, (m.delim | m.feed) & good, bad != 0};
}

QC_TARGET inline int64_t index_plain(const CsvDialect* dialect, const Byte* text, int64_t nbytes, uint32_t* cuts,
                                     uint32_t* rows, int64_t room) noexcept {
  Byte tail[64];
  uint64_t carriage = 0;
  uint32_t count = 0;
  int64_t row_count = 0;
  cuts[0] = 0;
  for (int64_t at = 0; at < nbytes && count + 65 < uint64_t(room); at += 64) {
    const Byte* from = text + at;
    if (nbytes - at < 64) {
      std::memset(tail, dialect->filler, sizeof tail);
      std::memcpy(tail, from, std::size_t(nbytes - at));
      from = tail;
    }
    CsvPlain here = plain(marks_of(from, dialect->delim), dialect->quotes, &carriage);
    uint64_t newline = here.newline, separator = here.separator;
    while (newline != 0) {
      rows[row_count++] = count + uint32_t(__builtin_popcountll(separator & (newline ^ (newline - 1))));
      newline &= newline - 1;
    }
    while (separator != 0) {
      cuts[++count] = uint32_t(at) + uint32_t(__builtin_ctzll(separator)) + 1;
      separator &= separator - 1;
    }
    if (here.stop) break;
  }
  return row_count;
}

QC_TARGET inline int64_t count_plain(const CsvDialect* dialect, const Byte* text, int64_t nbytes, int64_t most,
                                     int64_t* rows) noexcept {
  Byte tail[64];
  uint64_t carriage = 0;
  int64_t end = 0, left = most;
  for (int64_t at = 0; at < nbytes && left > 0; at += 64) {
    const Byte* from = text + at;
    if (nbytes - at < 64) {
      std::memset(tail, dialect->filler, sizeof tail);
      std::memcpy(tail, from, std::size_t(nbytes - at));
      from = tail;
    }
    CsvPlain here = plain(marks_of(from, dialect->delim), dialect->quotes, &carriage);
    uint64_t newline = here.newline;
    int64_t count = __builtin_popcountll(newline);
    if (count > left) {
      for (int64_t i = 0; i < left; ++i) {
        end = at + __builtin_ctzll(newline) + 1;
        newline &= newline - 1;
      }
      count = left;
    } else if (count > 0) {
      end = at + 64 - __builtin_clzll(newline);
    }
    left -= count;
    if (here.stop) break;
  }
  *rows = most - left;
  return end;
}
