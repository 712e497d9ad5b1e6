// The loops of kernels/lines.hpp. Included there once for each kind of processor, in a namespace that has newlines() of 64
// bytes, write_ends(), which may write 64 whatever their number, and copy64(); with QC_TARGET for the attributes of
// functions: one compiled for a newer processor can't be inlined where another calls it.

QC_TARGET inline int64_t find(const Byte* text, int64_t nbytes, uint32_t* ends, int64_t most) noexcept {
  int64_t count = 0, at = 0;
  for (; at + 64 <= nbytes && count + 64 <= most; at += 64) {
    count += write_ends(newlines(text + at), uint32_t(at), ends + count);
  }
  for (; at < nbytes && count < most; at += 64) {
    uint32_t some[64];
    Byte tail[64] = {};
    std::memcpy(tail, text + at, std::size_t(nbytes - at < 64 ? nbytes - at : 64));
    int64_t found = write_ends(newlines(tail), uint32_t(at), some);
    found = found < most - count ? found : most - count;
    std::memcpy(ends + count, some, std::size_t(found) * sizeof some[0]);
    count += found;
  }
  return count;
}

// A line is copied 64 bytes at a time, and so up to 64 too many, as long as the lines after it have as many bytes: these
// overwrite the bytes that were too many. The last lines are copied exactly.
QC_TARGET inline int64_t gather(const Byte* text, int64_t begin, const uint32_t* ends, int64_t n, Byte* values,
                                int64_t base, int64_t* splits) noexcept {
  int64_t wide = n, after = 0;
  for (; wide > 0 && after < 64; --wide) after += line_bytes(text, wide > 1 ? ends[wide - 2] : begin, ends[wide - 1]);
  int64_t taken = 0;
  for (int64_t i = 0; i < n; ++i) {
    int64_t end = ends[i];
    int64_t nbytes = line_bytes(text, begin, end);
    const Byte* from = text + begin;
    Byte* to = values + taken;
    if (__builtin_expect(i < wide && nbytes <= 512, 1)) {
      copy64(to, from);
      for (int64_t at = 64; at < nbytes; at += 64) copy64(to + at, from + at);
    } else if (nbytes > 0) {
      std::memcpy(to, from, std::size_t(nbytes));
    }
    taken += nbytes;
    splits[i] = base + taken;
    begin = end;
  }
  return taken;
}
