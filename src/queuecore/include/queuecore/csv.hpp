// The structs that a plan of CSV points to: the dialect, fields of a column, and the loops chosen for this processor.
//
// kernels/csv.hpp has the loops: its tables of powers cost each module that includes it seconds to compile.
#pragma once

#include <cstdint>

namespace queuecore {

struct CsvDialect {
  unsigned char delim;
  unsigned char filler;  // no delimiter, quote or newline
  uint64_t quotes;       // all ones, or 0: a quote is a character like others
};

// The field that stands for a missing number, and its default.
struct CsvMissing {
  const unsigned char* na;  // such a field is missing, as an empty one is
  int64_t na_bytes;
  bool required;  // none may be missing
  uint64_t bits;  // the default
};

// Some fields of one column: number i lies at base + cuts[i * step], up to the byte before the next cut.
struct CsvFields {
  const unsigned char* lowest;  // from here on, memory may be read
  const unsigned char* base;
  const uint32_t* cuts;
  int64_t step;
  bool last;  // of its row: the byte before the cut may follow a carriage return
};

struct CsvKernels {
  // Cuts text into fields: cuts[0] is 0, and cuts[i] the byte after the i-th delimiter or newline. rows[i]: the number of
  // cuts up to the end of row i. Ends with the text, or when more may not fit into `room`. Returns the number of rows.
  int64_t (*index_plain)(const CsvDialect* dialect, const unsigned char* text, int64_t nbytes, uint32_t* cuts,
                         uint32_t* rows, int64_t room);
  // Returns the bytes of whole rows, of at most `most` rows.
  int64_t (*count_plain)(const CsvDialect* dialect, const unsigned char* text, int64_t nbytes, int64_t most,
                         int64_t* rows);
  // Parse n numbers; out: the place of the first one. Return the number parsed: less than n if the next one isn't valid,
  // or is missing.
  int64_t (*float32)(const CsvFields* fields, const CsvMissing* missing, int64_t n, unsigned char* out, int64_t stride);
  int64_t (*float64)(const CsvFields* fields, const CsvMissing* missing, int64_t n, unsigned char* out, int64_t stride);
  int64_t (*int32)(const CsvFields* fields, const CsvMissing* missing, int64_t n, unsigned char* out, int64_t stride);
  int64_t (*int64)(const CsvFields* fields, const CsvMissing* missing, int64_t n, unsigned char* out, int64_t stride);
};

}  // namespace queuecore
