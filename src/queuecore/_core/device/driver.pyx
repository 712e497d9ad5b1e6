"""The CUDA driver and its devices. See driver.pxd."""
cimport cython
from queuecore._core.atoms.errors cimport CODE_DEVICE, CODE_EXHAUSTED, CODE_FORKED, CODE_INTERNAL, raise_error
from queuecore._core.atoms.memory cimport calloc
from queuecore._core.atoms.process cimport check_layout, fork_generation
from queuecore._core.atoms.platform cimport Turn, alloc_lines, layout_hash, syscalls

import threading

check_layout(layout_hash())

cdef extern from "dlfcn.h" nogil:
    char* dlerror()

cdef extern from *:
    """
    #include <cstring>
    #include <dlfcn.h>
    #include "queuecore/cuda.hpp"

    namespace {
    bool find(void* library, const char* name, void* place) noexcept {
      void* found = dlsym(library, name);
      memcpy(place, &found, sizeof found);
      return found != nullptr;
    }

    // Returns the name of the first function that is missing, or null.
    const char* cuda_find(void* library, queuecore::Cuda& cuda) noexcept {
      const struct {
        const char* name;
        void* place;
      } wanted[] = {
          {"cuInit", &cuda.init},
          {"cuDriverGetVersion", &cuda.driver_version},
          {"cuDeviceGetCount", &cuda.device_count},
          {"cuDeviceGet", &cuda.device_get},
          {"cuDeviceGetName", &cuda.device_name},
          {"cuDevicePrimaryCtxRetain", &cuda.context_retain},
          {"cuDevicePrimaryCtxRelease_v2", &cuda.context_release},
          {"cuCtxSetCurrent", &cuda.context_set},
          {"cuCtxGetCurrent", &cuda.context_get},
          {"cuStreamCreateWithPriority", &cuda.stream_create},
          {"cuStreamDestroy_v2", &cuda.stream_destroy},
          {"cuStreamSynchronize", &cuda.stream_synchronize},
          {"cuStreamWaitEvent", &cuda.stream_wait},
          {"cuEventCreate", &cuda.event_create},
          {"cuEventDestroy_v2", &cuda.event_destroy},
          {"cuEventRecord", &cuda.event_record},
          {"cuEventQuery", &cuda.event_query},
          {"cuEventSynchronize", &cuda.event_synchronize},
          {"cuMemHostRegister_v2", &cuda.host_register},
          {"cuMemHostUnregister", &cuda.host_unregister},
          {"cuMemAlloc_v2", &cuda.memory_new},
          {"cuMemFree_v2", &cuda.memory_free},
          {"cuMemcpyHtoDAsync_v2", &cuda.copy_to_device},
          {"cuMemcpyDtoDAsync_v2", &cuda.copy_on_device},
          {"cuLaunchKernel", &cuda.launch},
          {"cuGetErrorName", &cuda.error_name},
          {"cuGetErrorString", &cuda.error_text},
      };
      for (const auto& one : wanted)
        if (!find(library, one.name, one.place)) return one.name;
      find(library, "cuMemcpyBatchAsync_v2", &cuda.copy_batch);
      find(library, "cuDeviceGetPCIBusId", &cuda.device_bus);
      return nullptr;
    }
    }  // namespace
    """
    const char* cuda_find(void*, Cuda&) noexcept nogil


cdef int enter(DeviceCore* core, Entered* e) noexcept nogil:
    e.switched = False
    if cuda.context_get(&e.before) != 0:
        e.before = NULL
    if e.before == core.context:
        return 0
    e.switched = True
    return cuda.context_set(core.context)


cdef void leave(Entered* e) noexcept nogil:
    if e.switched:
        cuda.context_set(e.before)


# Under _opening
cdef object _driver = None       # None: not looked for yet; a message: why no driver can be used
cdef bint _found = False
cdef dict _devices = {}
cdef str _PCI = "/sys/bus/pci/devices"
cdef str _pci = _PCI
cdef object _opening = threading.Lock()


def open_driver(str path=None, str pci=_PCI):
    """Find the CUDA driver, once in the process; or, by its path, another one than the usual, after `close_driver`.

    Parameters
    ----------
    path : str, optional
        Of the library.
    pci : str
        Where the system describes its PCI devices.

    Raises
    ------
    DeviceUnavailableError
        If there is none, or none that can be used.
    """
    global _driver, _found, _pci
    cdef void* library
    cdef const char* missing = NULL
    cdef int rc
    with _opening:
        if _driver is None:
            _pci = pci
            library = syscalls().library((path or "libcuda.so.1").encode())
            if library != NULL:
                missing = cuda_find(library, cuda)
            if library == NULL:
                _driver = f"there is no CUDA driver ({dlerror().decode()})"
            elif missing != NULL:
                _driver = f"the CUDA driver is too old: it has no {missing.decode()}"
            else:
                with nogil:
                    rc = cuda.init(0)
                _found = rc == 0
                _driver = "" if rc == 0 else _unusable(rc)
        if not _found:
            raise_error(CODE_DEVICE, _driver)


cdef str _unusable(int result):
    if result == kCuNoDevice:
        return "the CUDA driver finds no device"
    if result == kCuStubLibrary:
        return "libcuda.so.1 is the toolkit's stub, and not a driver"
    return f"cuInit failed: {_text(result)}"


cdef str _text(int result):
    cdef const char* name = NULL
    cdef const char* text = NULL
    cuda.error_name(result, &name)
    cuda.error_text(result, &text)
    return f"{'unknown' if name == NULL else name.decode()} ({result}): {'' if text == NULL else text.decode()}"


def device(int ordinal):
    """Return a device, which is opened once in the process. As `open_driver`; also if there is no such device."""
    with _opening:
        entry = _devices.get(ordinal)
    if entry is None:
        open_driver()
        with _opening:
            entry = _devices.get(ordinal)
            if entry is None:
                entry = _devices[ordinal] = Device(ordinal)
    elif not ours((<Device>entry).core):
        raise_error(CODE_FORKED,
            "CUDA was in use before os.fork(), and can't be used in the child: start processes with 'spawn', or use "
            "device='cpu' there")
    return entry


cdef list opened_devices():
    with _opening:
        return list(_devices.values())


cdef int forget_driver() except -1:
    global _driver, _found
    cdef DeviceCore* core
    with _opening:
        for one in _devices.values():
            core = (<Device>one).core
            if ours(core):
                cuda.context_release(core.device)
        _devices.clear()
        _driver = None
        _found = False
    return 0


@cython.final
cdef class Device:
    """A GPU, and its primary context, which CuPy, PyTorch and JAX use as well.

    Attributes
    ----------
    ordinal : int
    name : str
    driver_version : int
    numa_node : int or None
        The host's node whose memory is nearest: page-locked memory is requested there.
    """

    def __cinit__(self, int ordinal):  # __cinit__, so that no Device exists without a core
        cdef char[256] name
        cdef int rc, count = 0
        if cuda.device_get == NULL:
            raise_error(CODE_DEVICE, f"cuda:{ordinal} can't be used: the driver isn't open")
        self.ordinal = ordinal
        self.core = <DeviceCore*>calloc(1, sizeof(DeviceCore))
        if self.core == NULL:
            raise MemoryError
        self.core.kept.turn = <Turn*>alloc_lines(sizeof(Turn))
        if self.core.kept.turn == NULL:
            raise MemoryError
        self.core.ordinal = ordinal
        self.core.generation = fork_generation()
        rc = cuda.device_get(&self.core.device, ordinal)
        if rc != 0:
            cuda.device_count(&count)
            raise_error(CODE_DEVICE, f"there is no device cuda:{ordinal}: {_text(rc)}; {count} can be used")
        name[0] = 0
        cuda.device_name(name, 255, self.core.device)
        self.name = name.decode(errors="replace")
        cuda.driver_version(&self.driver_version)
        with nogil:
            rc = cuda.context_retain(&self.core.context, self.core.device)
        if rc != 0:
            raise_error(CODE_DEVICE, f"cuda:{ordinal} can't be used: {_text(rc)}")
        self.numa_node = self._node()
        self.core.node = -1 if self.numa_node is None else self.numa_node

    cdef object _node(self):
        cdef char[64] bus
        bus[0] = 0
        if cuda.device_bus == NULL or cuda.device_bus(bus, 63, self.core.device) != 0:
            return None
        try:
            with open(f"{_pci}/{bus.decode('ascii').lower()}/numa_node", encoding="ascii") as file:
                node = int(file.read())
        except (OSError, ValueError):
            return None
        return node if 0 <= node < 1024 else None  # -1: there is only one

    def __repr__(self):
        return f"<Device cuda:{self.ordinal} {self.name!r}>"

    cdef int fail(self, const Failure* failure) except -1:
        if failure.result == 0:
            raise MemoryError
        call = failure.call.decode()
        if failure.result == kCuOutOfMemory and call == "cuMemHostRegister":
            raise_error(CODE_EXHAUSTED,
                f"{failure.nbytes} bytes of host memory can't be page-locked for cuda:{self.ordinal} "
                f"({_text(failure.result)}): raise the limit (ulimit -l), use smaller batches or fewer of them ahead, "
                "or allow slower copies with pinned='prefer'")
        if failure.result == kCuOutOfMemory:
            raise_error(CODE_EXHAUSTED,
                f"no memory for {failure.nbytes} bytes on cuda:{self.ordinal} ({call}): use fewer buffers or smaller "
                "batches, or free some")
        raise_error(CODE_INTERNAL, f"{call} failed on cuda:{self.ordinal}: {_text(failure.result)}")
