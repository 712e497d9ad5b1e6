// The CUDA driver, which is looked for at run time: the types of the functions that are called, and the one struct that is
// shared with it. These are facts of its binary interface on 64-bit Linux; building and importing need no part of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

namespace queuecore {

using CuPointer = unsigned long long;  // an address in a device's memory

// The results that queuecore distinguishes.
constexpr int kCuOutOfMemory = 2;
constexpr int kCuStubLibrary = 34;
constexpr int kCuNoDevice = 100;
constexpr int kCuNotReady = 600;

constexpr unsigned kCuHostRegisterPortable = 1;
constexpr unsigned kCuStreamNonBlocking = 1;
constexpr unsigned kCuEventDisableTiming = 2;
constexpr int kCuSourceOrderStream = 1;

// The default streams: these handles don't depend, as a null handle does, on how the caller was compiled.
constexpr std::uintptr_t kCuStreamLegacy = 1;
constexpr std::uintptr_t kCuStreamPerThread = 2;

struct CuLocation {
  int type, id;
};
struct CuCopyAttributes {
  int source_order;
  CuLocation source, destination;
  unsigned flags;
};
static_assert(sizeof(CuCopyAttributes) == 24, "as in driver 13.0");

struct Cuda {
  int (*init)(unsigned flags);
  int (*driver_version)(int*);
  int (*device_count)(int*);
  int (*device_get)(int* device, int ordinal);
  int (*device_name)(char*, int length, int device);
  int (*device_bus)(char* id, int length, int device);  // or null
  int (*context_retain)(void** context, int device);
  int (*context_release)(int device);
  int (*context_set)(void* context);
  int (*context_get)(void** context);
  int (*stream_create)(void** stream, unsigned flags, int priority);
  int (*stream_destroy)(void* stream);
  int (*stream_synchronize)(void* stream);
  int (*stream_wait)(void* stream, void* event, unsigned flags);
  int (*event_create)(void** event, unsigned flags);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, void* stream);
  int (*event_query)(void* event);
  int (*event_synchronize)(void* event);
  int (*host_register)(void* p, std::size_t nbytes, unsigned flags);
  int (*host_unregister)(void* p);
  int (*memory_new)(CuPointer* p, std::size_t nbytes);
  int (*memory_free)(CuPointer p);
  int (*copy_to_device)(CuPointer to, const void* from, std::size_t nbytes, void* stream);
  int (*copy_on_device)(CuPointer to, CuPointer from, std::size_t nbytes, void* stream);
  int (*copy_batch)(CuPointer* to, CuPointer* from, std::size_t* nbytes, std::size_t n, CuCopyAttributes* attributes,
                    std::size_t* first, std::size_t attribute_count,
                    void* stream);  // _v2, since driver 13.0; or null: without _v2 it has another signature
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared, void* stream, void** arguments, void** extra);
  int (*error_name)(int result, const char** text);
  int (*error_text)(int result, const char** text);
};

}  // namespace queuecore
