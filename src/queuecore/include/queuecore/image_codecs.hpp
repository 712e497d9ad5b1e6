// libjpeg, libpng and libwebp, which are looked for at run time: the functions that are called, and how their errors come
// back. The first two leave a failed call by a jump (`error_exit`, libpng's error function), which Cython can't express; so all calls
// that can jump are here, in functions without destructors. A reader belongs to one thread, and isn't moved while it is
// open.
//
// Only the front of libjpeg's structs is declared, which is the same in the interfaces 6.2 and 8 (libjpeg-turbo has both,
// by soname libjpeg.so.62 and libjpeg.so.8); `jpeg_CreateDecompress` compares version and size with its own. libpng 1.6
// hides its structs: only functions are declared. libwebp has one small struct, and compares our version of it.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace queuecore {

// ---- what libjpeg and we share --------------------------------------------------------------------------------------

struct JpegDecompress;

// jpeg_error_mgr; room for more, because jpeg_std_error fills in its own idea of it.
struct JpegErrors {
  void (*error_exit)(JpegDecompress*);
  void (*emit_message)(JpegDecompress*, int level);
  void (*output_message)(JpegDecompress*);
  void (*format_message)(JpegDecompress*, char*);
  void (*reset)(JpegDecompress*);
  int code;
  int parameters[20];
  int trace_level;
  long warnings;
  const char* const* messages;
  int last_message;
  unsigned char rest[256];
};
static_assert(offsetof(JpegErrors, code) == 40 && offsetof(JpegErrors, messages) == 136, "as in libjpeg, 64 bits");

// jpeg_source_mgr.
struct JpegSource {
  const unsigned char* next;
  size_t left;
  void (*init)(JpegDecompress*);
  int (*fill)(JpegDecompress*);
  void (*skip)(JpegDecompress*, long);
  int (*resync)(JpegDecompress*, int);
  void (*term)(JpegDecompress*);
};

// jpeg_progress_mgr.
struct JpegProgress {
  void (*monitor)(JpegDecompress*);
  long pass_counter, pass_limit;
  int completed_passes, total_passes;
};

// The front of jpeg_decompress_struct.
struct JpegDecompress {
  JpegErrors* errors;
  void* memory;
  JpegProgress* progress;
  void* client_data;
  int is_decompressor, global_state;
  JpegSource* source;
  unsigned image_width, image_height;
  int components, file_colours, out_colours;
  unsigned scale_num, scale_denom;
  double gamma;
  int buffered_image, raw_data_out;
  int dct_method;
  int fancy_upsampling;
  int smoothing, quantize, dither, two_pass, colours_wanted, enable[3];
  unsigned output_width, output_height;
  int out_components, output_components, rec_outbuf_height, colours;
  void* colormap;
  unsigned output_scanline;
  int input_scan;
  unsigned char rest[848];
};
static_assert(offsetof(JpegDecompress, gamma) == 80 && offsetof(JpegDecompress, fancy_upsampling) == 100 &&
                  offsetof(JpegDecompress, output_width) == 136 && offsetof(JpegDecompress, input_scan) == 172 &&
                  sizeof(JpegDecompress) == 1024,
              "as in libjpeg 6.2 and 8, 64 bits; larger than any of them");

// The differences between the two interfaces of libjpeg.
struct JpegAbi {
  int version;
  size_t size;
  size_t adobe;  // where saw_Adobe_marker is
};
constexpr JpegAbi kJpegAbis[] = {{62, 632, 384}, {80, 656, 388}};

constexpr int kJpegGrey = 1;
constexpr int kJpegRgb = 2;
constexpr int kJpegCmyk = 4;
constexpr int kJpegYcck = 5;

constexpr int kPngTransparent = 0x10;  // PNG_INFO_tRNS
constexpr int kPngColour = 2;          // bits of the colour type
constexpr int kPngAlpha = 4;
constexpr int kPngPalette = 3;

// WebPBitstreamFeatures, of the decoder's interface 2.9.
struct WebpFeatures {
  int width, height, has_alpha, has_animation, format;
  uint32_t unused[5];
};
constexpr int kWebpInterface = 0x0209;

struct ImageCodecs {
  JpegErrors* (*jpeg_std_error)(JpegErrors*);
  void (*jpeg_create)(JpegDecompress*, int version, size_t size);
  int (*jpeg_read_header)(JpegDecompress*, int require_image);
  int (*jpeg_start)(JpegDecompress*);
  unsigned (*jpeg_read)(JpegDecompress*, unsigned char** rows, unsigned most);
  int (*jpeg_finish)(JpegDecompress*);
  void (*jpeg_destroy)(JpegDecompress*);
  int (*jpeg_resync)(JpegDecompress*, int desired);
  int (*jpeg_several_scans)(const JpegDecompress*);
  // Of libjpeg-turbo alone; both or none.
  void (*jpeg_crop)(JpegDecompress*, unsigned* left, unsigned* width);
  unsigned (*jpeg_skip_rows)(JpegDecompress*, unsigned rows);
  JpegAbi abi;

  const char* (*png_version)(const void*);
  void* (*png_create)(const char* version, void* owner, void (*error)(void*, const char*),
                      void (*warning)(void*, const char*));
  void* (*png_create_info)(void*);
  void (*png_destroy)(void** png, void** info, void** end);
  void* (*png_error_owner)(const void*);
  void* (*png_source_owner)(const void*);
  void (*png_set_source)(void*, void* owner, void (*read)(void*, unsigned char*, size_t));
  void (*png_read_info)(void*, void*);
  uint32_t (*png_header)(const void*, const void*, uint32_t* width, uint32_t* height, int* depth, int* colours, int*,
                         int*, int*);
  uint32_t (*png_valid)(const void*, const void*, uint32_t flag);
  void (*png_expand)(void*);
  void (*png_strip_alpha)(void*);
  void (*png_add_alpha)(void*, uint32_t filler, int flags);
  void (*png_strip_16)(void*);
  void (*png_swap)(void*);
  void (*png_grey_to_rgb)(void*);
  void (*png_rgb_to_grey)(void*, int action, int32_t red, int32_t green);
  int (*png_interlace)(void*);
  void (*png_update)(void*, void*);
  unsigned char (*png_channels)(const void*, const void*);
  size_t (*png_row_bytes)(const void*, const void*);
  void (*png_row)(void*, unsigned char* row, unsigned char* display);
  void (*png_end)(void*, void*);

  int (*webp_features)(const unsigned char*, size_t, WebpFeatures*, int version);
  unsigned char* (*webp_rgb)(const unsigned char*, size_t, unsigned char* into, size_t nbytes, int row_bytes);
  unsigned char* (*webp_rgba)(const unsigned char*, size_t, unsigned char* into, size_t nbytes, int row_bytes);
};

// The state of one extension, written before its first reader.
inline ImageCodecs image_codecs{};

template <typename Function>
inline bool image_symbol(void* library, const char* name, Function*& place) noexcept {
  place = reinterpret_cast<Function*>(::dlsym(library, name));
  return place != nullptr;
}

inline bool jpeg_take(void* library) noexcept {
  ImageCodecs& to = image_codecs;
  if (!image_symbol(library, "jpeg_crop_scanline", to.jpeg_crop) ||
      !image_symbol(library, "jpeg_skip_scanlines", to.jpeg_skip_rows)) {
    to.jpeg_crop = nullptr;
  }
  return image_symbol(library, "jpeg_std_error", to.jpeg_std_error) &&
         image_symbol(library, "jpeg_CreateDecompress", to.jpeg_create) &&
         image_symbol(library, "jpeg_read_header", to.jpeg_read_header) &&
         image_symbol(library, "jpeg_start_decompress", to.jpeg_start) &&
         image_symbol(library, "jpeg_read_scanlines", to.jpeg_read) &&
         image_symbol(library, "jpeg_finish_decompress", to.jpeg_finish) &&
         image_symbol(library, "jpeg_destroy_decompress", to.jpeg_destroy) &&
         image_symbol(library, "jpeg_has_multiple_scans", to.jpeg_several_scans) &&
         image_symbol(library, "jpeg_resync_to_restart", to.jpeg_resync);
}

inline bool png_take(void* library) noexcept {
  ImageCodecs& to = image_codecs;
  return image_symbol(library, "png_get_libpng_ver", to.png_version) &&
         image_symbol(library, "png_create_read_struct", to.png_create) &&
         image_symbol(library, "png_create_info_struct", to.png_create_info) &&
         image_symbol(library, "png_destroy_read_struct", to.png_destroy) &&
         image_symbol(library, "png_get_error_ptr", to.png_error_owner) &&
         image_symbol(library, "png_get_io_ptr", to.png_source_owner) &&
         image_symbol(library, "png_set_read_fn", to.png_set_source) &&
         image_symbol(library, "png_read_info", to.png_read_info) &&
         image_symbol(library, "png_get_IHDR", to.png_header) && image_symbol(library, "png_get_valid", to.png_valid) &&
         image_symbol(library, "png_set_expand", to.png_expand) &&
         image_symbol(library, "png_set_strip_alpha", to.png_strip_alpha) &&
         image_symbol(library, "png_set_add_alpha", to.png_add_alpha) &&
         image_symbol(library, "png_set_strip_16", to.png_strip_16) &&
         image_symbol(library, "png_set_swap", to.png_swap) &&
         image_symbol(library, "png_set_gray_to_rgb", to.png_grey_to_rgb) &&
         image_symbol(library, "png_set_rgb_to_gray_fixed", to.png_rgb_to_grey) &&
         image_symbol(library, "png_set_interlace_handling", to.png_interlace) &&
         image_symbol(library, "png_read_update_info", to.png_update) &&
         image_symbol(library, "png_get_channels", to.png_channels) &&
         image_symbol(library, "png_get_rowbytes", to.png_row_bytes) &&
         image_symbol(library, "png_read_row", to.png_row) &&  //
         image_symbol(library, "png_read_end", to.png_end);
}

inline bool webp_take(void* library) noexcept {
  ImageCodecs& to = image_codecs;
  return image_symbol(library, "WebPGetFeaturesInternal", to.webp_features) &&
         image_symbol(library, "WebPDecodeRGBInto", to.webp_rgb) &&
         image_symbol(library, "WebPDecodeRGBAInto", to.webp_rgba);
}

enum ImageOutcome : int { kImageDone = 0, kImageCut = 1, kImageDamaged = 2, kImageNoMemory = 3, kImageScans = 4 };

// ---- JPEG -----------------------------------------------------------------------------------------------------------

// Rows asked for in one call; libjpeg gives those that it has, which may be fewer.
constexpr unsigned kJpegRows = 16;
// A progressive picture has about ten scans. Each of thousands of empty ones takes as long as the whole picture.
constexpr int kJpegScans = 500;

struct JpegReader {
  int recover;  // missing rows at the end are made up
  int open;     // jpeg_close must destroy the decoder
  int outcome;  // of the jump
  std::jmp_buf jump;
  JpegSource source;
  JpegProgress progress;
  JpegErrors errors;
  JpegDecompress own;
};

inline JpegReader* jpeg_reader(JpegDecompress* own) noexcept { return static_cast<JpegReader*>(own->client_data); }

[[noreturn]] inline void jpeg_failed(JpegDecompress* own) {
  JpegReader* reader = jpeg_reader(own);
  // JERR_OUT_OF_MEMORY's number differs between versions; its text doesn't.
  const char* text = reader->errors.code >= 0 && reader->errors.code <= reader->errors.last_message
                         ? reader->errors.messages[reader->errors.code]
                         : nullptr;
  bool memory = text != nullptr && std::strncmp(text, "Insufficient memory", 19) == 0;
  reader->outcome = memory ? kImageNoMemory : kImageDamaged;
  std::longjmp(reader->jump, 1);
}

inline void jpeg_warning(JpegDecompress*, int) {}

inline void jpeg_nothing(JpegDecompress*) {}

inline int jpeg_fill(JpegDecompress* own) {
  static const unsigned char kEnd[2] = {0xff, 0xd9};
  if (!jpeg_reader(own)->recover) return 0;
  own->source->next = kEnd;
  own->source->left = sizeof(kEnd);
  return 1;
}

inline void jpeg_skip(JpegDecompress* own, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > own->source->left) count = static_cast<long>(own->source->left);
  own->source->next += count;
  own->source->left -= static_cast<size_t>(count);
}

inline void jpeg_monitor(JpegDecompress* own) {
  if (own->input_scan <= kJpegScans) return;
  jpeg_reader(own)->outcome = kImageScans;
  std::longjmp(jpeg_reader(own)->jump, 1);
}

// Opens a decoder; jpeg_close must follow, also after an error. Keeps `errors` and `client_data` of `own`, and sets all
// other fields to zero.
inline bool jpeg_create(JpegReader* reader, const JpegAbi& abi) noexcept {
  reader->open = 0;
  reader->own.errors = image_codecs.jpeg_std_error(&reader->errors);
  reader->errors.error_exit = jpeg_failed;
  reader->errors.emit_message = jpeg_warning;
  reader->errors.output_message = jpeg_nothing;
  reader->own.client_data = reader;
  if (setjmp(reader->jump) != 0) return false;
  image_codecs.jpeg_create(&reader->own, abi.version, abi.size);
  reader->open = 1;
  return true;
}

inline void jpeg_close(JpegReader* reader) noexcept {
  if (reader->open) image_codecs.jpeg_destroy(&reader->own);
  reader->open = 0;
}

// Finds out which of the two interfaces the library has.
inline bool jpeg_agree(JpegReader* reader) noexcept {
  for (const JpegAbi& abi : kJpegAbis) {
    image_codecs.abi = abi;
    bool agreed = jpeg_create(reader, abi);
    jpeg_close(reader);
    if (agreed) return true;
  }
  return false;
}

// Reads the header: `own` then has width, height, components and colours. jpeg_close must follow, also after an error.
inline int jpeg_open(JpegReader* reader, const unsigned char* data, size_t nbytes, int recover) noexcept {
  if (!jpeg_create(reader, image_codecs.abi)) return reader->outcome;
  reader->recover = recover;
  reader->source = {data, nbytes, jpeg_nothing, jpeg_fill, jpeg_skip, image_codecs.jpeg_resync, jpeg_nothing};
  reader->own.source = &reader->source;
  reader->progress.monitor = jpeg_monitor;
  reader->own.progress = &reader->progress;
  if (setjmp(reader->jump) != 0) return reader->outcome;
  return image_codecs.jpeg_read_header(&reader->own, 1) == 1 ? kImageDone : kImageCut;
}

// Makes three colours of a row of four inks. Adobe's programs write the complement of the inks.
inline void jpeg_colours(JpegReader* reader, const unsigned char* row, unsigned char* target, unsigned width) noexcept {
  int inverted = 0;
  std::memcpy(&inverted, reinterpret_cast<unsigned char*>(&reader->own) + image_codecs.abi.adobe, sizeof(int));
  for (unsigned x = 0; x < width; x++) {
    for (int c = 0; c < 3; c++) {
      int ink = row[4 * x + c], black = row[4 * x + 3];
      int light = inverted ? ink * black : (255 - ink) * (255 - black);
      target[3 * x + c] = static_cast<unsigned char>(light / 255);
    }
  }
}

// Whether parts of a picture can be decoded. Where scans of a progressive one are missing, what is there is smoothed by
// pixels further away: the pixels of a part would be others.
inline bool jpeg_has_parts(const JpegDecompress* own) noexcept {
  return image_codecs.jpeg_crop != nullptr && !image_codecs.jpeg_several_scans(own);
}

// Begins with the columns from `left` on, `width` of them; both then become those that the rows have, which may be more.
// Smoothed colours depend on the neighbouring pixel, so there is one more on each side: the pixels are those of the whole
// picture.
inline int jpeg_begin(JpegReader* reader, unsigned* left, unsigned* width) noexcept {
  JpegDecompress* own = &reader->own;
  if (setjmp(reader->jump) != 0) return reader->outcome;
  if (!image_codecs.jpeg_start(own)) return kImageCut;
  unsigned from = *left > 0 ? *left - 1 : 0, columns = std::min(own->output_width, *left + *width + 1) - from;
  *left = 0;
  *width = own->output_width;
  if (!jpeg_has_parts(own) || columns == own->output_width) return kImageDone;
  image_codecs.jpeg_crop(own, &from, &columns);
  *left = from;
  *width = columns;
  return kImageDone;
}

// Reads rows up to `end`, the first of which goes to `into`, the next `row_bytes` behind it. `row` has room for one row of
// inks. Rows before `begin` are left out; where they can't be skipped, they go through `into`.
inline int jpeg_rows(JpegReader* reader, unsigned begin, unsigned end, unsigned char* into, size_t row_bytes,
                     unsigned char* row) noexcept {
  JpegDecompress* own = &reader->own;
  if (setjmp(reader->jump) != 0) return reader->outcome;
  const bool inks = own->out_colours == kJpegCmyk;
  const unsigned width = own->output_width;
  if (end > own->output_height || size_t(width) * (inks ? 3 : own->output_components) != row_bytes) {
    return kImageDamaged;
  }
  if (begin > own->output_scanline && jpeg_has_parts(own)) {
    unsigned skipped = image_codecs.jpeg_skip_rows(own, begin - own->output_scanline);
    if (skipped == 0) return kImageCut;
  }
  while (own->output_scanline < end) {
    unsigned at = own->output_scanline;
    unsigned char* target = into + (at > begin ? at - begin : 0) * row_bytes;
    unsigned char* rows[kJpegRows] = {inks ? row : target};
    unsigned most = inks || at < begin ? 1 : std::min(kJpegRows, end - at);
    for (unsigned i = 1; i < most; i++) rows[i] = target + i * row_bytes;
    if (image_codecs.jpeg_read(own, rows, most) == 0) return kImageCut;
    if (inks) jpeg_colours(reader, row, target, width);
  }
  return kImageDone;
}

// Ends a picture, of which the last rows may be unread: whether the file is cut there shows by its end mark alone.
inline int jpeg_end(JpegReader* reader) noexcept {
  JpegDecompress* own = &reader->own;
  if (setjmp(reader->jump) != 0) return reader->outcome;
  if (own->output_scanline == own->output_height) return image_codecs.jpeg_finish(own) ? kImageDone : kImageCut;
  // The mark may just have been read.
  const unsigned char *begin = reader->source.next - 2, *at = reader->source.next + reader->source.left;
  if (reader->recover) return kImageDone;
  while (at - begin >= 2) {
    at--;
    if (at[-1] == 0xff && at[0] == 0xd9) return kImageDone;
  }
  return kImageCut;
}

// ---- PNG ------------------------------------------------------------------------------------------------------------

struct PngReader {
  const unsigned char* data;
  size_t left;
  void* png;
  void* info;
  int cut;      // more bytes were asked for than there are
  int outcome;  // of the jump
  std::jmp_buf jump;
  uint32_t width, height;
  int depth, colours, channels;
  int see_through;  // has a transparent colour, or a palette with one
  int passes;
};

[[noreturn]] inline void png_failed(void* png, const char* text) {
  PngReader* reader = static_cast<PngReader*>(image_codecs.png_error_owner(png));
  bool memory = text != nullptr && std::strstr(text, "memory") != nullptr;
  reader->outcome = reader->cut ? kImageCut : memory ? kImageNoMemory : kImageDamaged;
  std::longjmp(reader->jump, 1);
}

inline void png_warning(void*, const char*) {}

inline void png_source(void* png, unsigned char* into, size_t count) {
  PngReader* reader = static_cast<PngReader*>(image_codecs.png_source_owner(png));
  if (count > reader->left) {
    reader->cut = 1;
    png_failed(png, nullptr);
  }
  std::memcpy(into, reader->data, count);
  reader->data += count;
  reader->left -= count;
}

// Reads the header. png_close must follow, also after an error.
inline int png_open(PngReader* reader, const unsigned char* data, size_t nbytes) noexcept {
  reader->data = data;
  reader->left = nbytes;
  reader->png = reader->info = nullptr;
  reader->cut = 0;
  if (setjmp(reader->jump) != 0) return reader->outcome;
  // It gets the library's own version: no struct is shared. It doesn't jump before it has the error function.
  reader->png = image_codecs.png_create(image_codecs.png_version(nullptr), reader, png_failed, png_warning);
  if (reader->png == nullptr) return kImageNoMemory;
  reader->info = image_codecs.png_create_info(reader->png);
  if (reader->info == nullptr) return kImageNoMemory;
  image_codecs.png_set_source(reader->png, reader, png_source);
  image_codecs.png_read_info(reader->png, reader->info);
  image_codecs.png_header(reader->png, reader->info, &reader->width, &reader->height, &reader->depth, &reader->colours,
                          nullptr, nullptr, nullptr);
  reader->channels = image_codecs.png_channels(reader->png, reader->info);
  reader->see_through = image_codecs.png_valid(reader->png, reader->info, kPngTransparent) != 0;
  if (reader->colours == kPngPalette) reader->channels = reader->see_through ? 4 : 3;
  return kImageDone;
}

// Reads the picture with so many channels, of 8 or, if it has them, 16 bits: rows of `row_bytes` one after the other.
inline int png_picture(PngReader* reader, int channels, int depth, unsigned char* into, size_t row_bytes) noexcept {
  void* png = reader->png;
  if (setjmp(reader->jump) != 0) return reader->outcome;
  // Palettes become colours, greys of few bits become bytes, transparent colours a channel.
  image_codecs.png_expand(png);
  bool alpha = (reader->colours & kPngAlpha) != 0 || reader->see_through;
  if (channels % 2 == 0 && !alpha) image_codecs.png_add_alpha(png, 0xffff, 1);
  if (channels % 2 != 0 && alpha) image_codecs.png_strip_alpha(png);
  if (reader->depth == 16 && depth == 8) image_codecs.png_strip_16(png);
  if (depth == 16) image_codecs.png_swap(png);
  bool colour = (reader->colours & kPngColour) != 0;
  if (channels < 3 && colour) image_codecs.png_rgb_to_grey(png, 1, 29900, 58700);
  if (channels > 2 && !colour) image_codecs.png_grey_to_rgb(png);
  reader->passes = image_codecs.png_interlace(png);
  image_codecs.png_update(png, reader->info);
  // A longer row would be written past the end of its place.
  if (image_codecs.png_row_bytes(png, reader->info) != row_bytes) return kImageDamaged;
  for (int pass = 0; pass < reader->passes; pass++) {
    for (uint32_t y = 0; y < reader->height; y++) image_codecs.png_row(png, into + y * row_bytes, nullptr);
  }
  image_codecs.png_end(png, nullptr);
  return kImageDone;
}

inline void png_close(PngReader* reader) noexcept {
  if (reader->png != nullptr) image_codecs.png_destroy(&reader->png, &reader->info, nullptr);
}

// ---- WebP -----------------------------------------------------------------------------------------------------------

// Whether the container says that there are more bytes than there are.
inline bool webp_is_cut(const unsigned char* data, size_t nbytes) noexcept {
  uint64_t told = 0;
  for (int i = 0; i < 4; i++) told |= static_cast<uint64_t>(data[4 + i]) << 8 * i;
  return told + 8 > nbytes;
}

// Reads the header, of at least 12 bytes.
inline int webp_open(const unsigned char* data, size_t nbytes, WebpFeatures* features) noexcept {
  constexpr int kNoMemory = 1, kNotEnough = 7;  // of VP8StatusCode
  const int status = image_codecs.webp_features(data, nbytes, features, kWebpInterface);
  if (status == 0 && features->width > 0 && features->height > 0) return kImageDone;
  if (status == kNoMemory) return kImageNoMemory;
  return status == kNotEnough || webp_is_cut(data, nbytes) ? kImageCut : kImageDamaged;
}

inline int webp_picture(const unsigned char* data, size_t nbytes, int channels, int64_t height, int64_t row_bytes,
                        unsigned char* into) noexcept {
  const auto decode = channels == 4 ? image_codecs.webp_rgba : image_codecs.webp_rgb;
  const size_t whole = static_cast<size_t>(height) * static_cast<size_t>(row_bytes);
  if (decode(data, nbytes, into, whole, static_cast<int>(row_bytes)) != nullptr) return kImageDone;
  return webp_is_cut(data, nbytes) ? kImageCut : kImageDamaged;
}

// ---- wider numbers --------------------------------------------------------------------------------------------------

// Items of one or two bytes, packed at the front of `place`, become wider ones: times `scale`, then times `factor`. From
// the end, as each then lies on bytes that have been read; and by memcpy, because they are of other types.
template <typename From, typename To>
inline void widen(unsigned char* place, int64_t count, int scale, To factor) noexcept {
  for (int64_t i = count - 1; i >= 0; i--) {
    From from;
    std::memcpy(&from, place + i * sizeof(From), sizeof(From));
    To to = static_cast<To>(static_cast<To>(from * scale) * factor);
    std::memcpy(place + i * sizeof(To), &to, sizeof(To));
  }
}

// Widens bytes to 16 bits as tf.io.decode_image does: those of PNG by 257, others by 256.
inline void widen_to_16(unsigned char* place, int64_t count, bool png) noexcept {
  widen<uint8_t, uint16_t>(place, count, png ? 257 : 256, 1);
}

inline void widen_to_float(unsigned char* place, int64_t count, bool png, int depth) noexcept {
  if (depth == 16) return widen<uint16_t, float>(place, count, 1, 1.0f / 65535);
  widen<uint8_t, float>(place, count, png ? 257 : 1, png ? 1.0f / 65535 : 1.0f / 255);
}

}  // namespace queuecore
