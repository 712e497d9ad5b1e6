// The decompression libraries, which are looked for at run time: the types of the functions that are called, and the
// fields of shared structs that queuecore uses. These are facts of their binary interfaces on 64-bit Linux: libz.so.1
// since 1.2, libz-ng.so.2 since 2.0, libisal.so.2 since 2.24, libzstd.so.1 since 1.4, liblz4.so.1 since 1.8, liblzma.so.5
// since 5.0, libbz2.so.1.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace queuecore {

// zlib: z_stream. zlib-ng's has the same fields as far as `data_type`, and is shorter.
struct ZStream {
  const unsigned char* next_in;
  unsigned avail_in;
  unsigned long total_in;
  unsigned char* next_out;
  unsigned avail_out;
  unsigned long total_out;
  const char* msg;
  void* state;
  void* (*zalloc)(void* opaque, unsigned items, unsigned size);
  void (*zfree)(void* opaque, void* address);
  void* opaque;
  int data_type;
  unsigned long adler;
  unsigned long reserved;
};
static_assert(sizeof(ZStream) == 112 && offsetof(ZStream, data_type) == 88, "zlib checks the size");
constexpr int kZngStreamBytes = 104;

struct ZFunctions {
  int (*init)(ZStream*, int window_bits, const char* version, int stream_size);
  int (*reset)(ZStream*);
  int (*inflate)(ZStream*, int flush);
  int (*end)(ZStream*);
  const char* version;  // only its first digit counts
  int stream_bytes;
};

constexpr int kZStreamEnd = 1;
constexpr int kZNeedDict = 2;
constexpr int kZBufError = -5;
constexpr int kZMemError = -4;

// ISA-L: the front of inflate_state, then room for the fields that only the library uses.
struct IsalState {
  unsigned char* next_out;
  uint32_t avail_out;
  uint32_t total_out;
  const unsigned char* next_in;
  uint64_t read_in;  // bits taken from the input, not yet used
  uint32_t avail_in;
  int32_t read_in_length;
  unsigned char tables[21120];
  uint32_t block_state;
  uint32_t dict_length;
  uint32_t bfinal;
  uint32_t crc_flag;  // the kind of wrapper
  unsigned char rest[66192];
};
static_assert(offsetof(IsalState, block_state) == 21160 && sizeof(IsalState) == 87368, "as in ISA-L 2.24 to 2.31");

constexpr uint32_t kIsalFinished = 5;
constexpr uint32_t kIsalGzipBody = 6;  // without GZIP's header; the trailer is checked
constexpr uint32_t kIsalZlib = 3;
constexpr int kIsalNeedDict = 6;
constexpr int kIsalLookBack = -3;
constexpr int kIsalWrapper = -4;
constexpr int kIsalMethod = -5;
constexpr int kIsalChecksum = -6;

// zstd: ZSTD_inBuffer, ZSTD_outBuffer.
struct ZstdIn {
  const void* src;
  size_t size, pos;
};
struct ZstdOut {
  void* dst;
  size_t size, pos;
};

constexpr int kZstdPrefix = 10;
constexpr int kZstdWindow = 16;
constexpr int kZstdChecksum = 22;
constexpr int kZstdDictionary = 32;
constexpr int kZstdMemory = 64;

constexpr unsigned kLz4Version = 100;

// liblzma: lzma_stream.
struct XzStream {
  const unsigned char* next_in;
  size_t avail_in;
  uint64_t total_in;
  unsigned char* next_out;
  size_t avail_out;
  uint64_t total_out;
  const void* allocator;
  void* internal;
  uint64_t reserved[9];
};
static_assert(sizeof(XzStream) == 136 && offsetof(XzStream, internal) == 56, "as in liblzma 5");

constexpr int kXzStreamEnd = 1;
constexpr int kXzMemError = 5;
constexpr int kXzMemLimit = 6;
constexpr int kXzFormatError = 7;
constexpr int kXzBufError = 10;

// libbz2: bz_stream.
struct Bz2Stream {
  const char* next_in;
  unsigned avail_in;
  unsigned total_in[2];
  char* next_out;
  unsigned avail_out;
  unsigned total_out[2];
  void* state;
  void* (*take)(void* opaque, int items, int size);
  void (*give)(void* opaque, void* address);
  void* opaque;
};
static_assert(sizeof(Bz2Stream) == 80 && offsetof(Bz2Stream, state) == 48, "as in libbz2 1.0");

constexpr int kBz2StreamEnd = 4;
constexpr int kBz2MemError = -3;
constexpr int kBz2Magic = -5;

struct Codecs {
  ZFunctions zlib, zng;
  void (*isal_init)(IsalState*);
  void (*isal_reset)(IsalState*);
  int (*isal_inflate)(IsalState*);
  void* (*zstd_create)();
  size_t (*zstd_init)(void*);
  size_t (*zstd_free)(void*);
  size_t (*zstd_sizeof)(const void*);
  size_t (*zstd_decompress)(void*, ZstdOut*, ZstdIn*);
  unsigned (*zstd_is_error)(size_t);
  int (*zstd_error)(size_t);
  unsigned long long (*zstd_content_size)(const void*, size_t);
  size_t (*lz4_create)(void** context, unsigned version);
  size_t (*lz4_free)(void*);
  size_t (*lz4_decompress)(void*, void* to, size_t* to_bytes, const void* from, size_t* from_bytes,
                           const void* options);
  unsigned (*lz4_is_error)(size_t);
  const char* (*lz4_error)(size_t);
  int (*xz_init)(XzStream*, uint64_t memory_limit, uint32_t flags);
  int (*xz_code)(XzStream*, int action);
  void (*xz_end)(XzStream*);
  int (*bz2_init)(Bz2Stream*, int verbosity, int small);
  int (*bz2_decompress)(Bz2Stream*);
  int (*bz2_end)(Bz2Stream*);
};

}  // namespace queuecore
