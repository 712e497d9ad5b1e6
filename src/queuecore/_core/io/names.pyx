"""Names of files. See names.pxd for the contract."""
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy, strlen
from queuecore._core.atoms.dims cimport MAX_DIMS
from queuecore._core.atoms.memory cimport calloc, free, malloc
from queuecore._core.atoms.platform cimport alloc_lines, kAcqRel, kRelaxed, layout_hash, size_product
from queuecore._core.atoms.process cimport check_layout
from queuecore._core.io.remote cimport is_url

check_layout(layout_hash())


cdef class FileList:
    """List of file names, shared by every iterator of a dataset. While folders are listed, it grows.

    A call that needs all names waits until they are listed.

    Parameters
    ----------
    paths : sequence of bytes
        File system names. None may be empty or contain a zero byte (the caller has checked that).
    store : object with a ``number``, optional
        By what URLs are opened.
    item_bytes : int, optional
        Bytes of a number, if each file holds an array whose rows are its records.
    sides : tuple of int
        Shape of a row, without a 0 in it, if files hold arrays.
    arrays : list of tuple, optional
        For each file, if files hold arrays: its bytes before the first number, the number of its rows, and whether they
        lie by columns (Fortran's order).
    rest : Listing, optional
        Lists the names that come behind.
    """

    def __cinit__(self, paths, store=None, int64_t item_bytes=0, tuple sides=(), list arrays=None, rest=None):
        cdef list all_paths = list(paths)
        cdef Names* n = <Names*>alloc_lines(sizeof(Names))
        if n == NULL:
            raise MemoryError
        self.names = n
        n.refs.store(1, kRelaxed)
        self._set_store(store)
        self.rest = rest
        n.rooms = MOST_BLOCKS if rest is not None else blocks_of(len(all_paths))
        # calloc: the kernel's zero pages, of which most are never touched.
        n.blocks = <const char***>calloc(n.rooms if n.rooms else 1, sizeof(char**))
        if n.blocks == NULL:
            raise MemoryError
        self._add(all_paths, rest is None)
        if arrays is not None:
            self._set_arrays(item_bytes, sides, arrays)

    cdef int _add(self, list paths, bint is_last) except -1:
        cdef Names* n = self.names
        cdef NameText* text
        cdef int64_t total = sizeof(NameText), end = n.count + len(paths), k
        cdef bytes path
        for path in paths:
            total += len(path) + 1
        text = <NameText*>malloc(total)
        if text == NULL or blocks_of(end) > n.rooms:
            free(text)
            raise MemoryError
        for k in range(n.count // kFilesOfBlock, blocks_of(end)):
            if n.blocks[k] == NULL:
                n.blocks[k] = <const char**>malloc(size_product(room_of_block(n, end, k), sizeof(char*)))
            if n.blocks[k] == NULL:
                free(text)
                raise MemoryError
        text.before = n.texts
        n.texts = text
        total = 0
        k = n.count
        for path in paths:
            memcpy(text.text + total, <const char*>path, len(path) + 1)
            n.blocks[k // kFilesOfBlock][k % kFilesOfBlock] = text.text + total
            self.remote = self.remote or is_url(<const char*>path)
            total += len(path) + 1
            k += 1
        n.count = end
        n.whole = is_last
        return 0

    def add(self, int64_t part, list paths, bint is_last):
        """Add the names of a part of the listing, unless it was added before."""
        if part == self.names.parts:
            self._add(paths, is_last)
            self.names.parts += 1

    def follow(self, stream):
        """Let a stream of these files know of each name that is added, or was added since it was made."""
        if self.rest is not None:
            self.rest.follow(self, stream)

    cpdef int at_least(self, int64_t count) except -1:
        """Wait until so many names are known, or all."""
        if not self.names.whole and self.names.count < count:
            self.rest.wait(self, count)
        return 0

    cdef int _set_arrays(self, int64_t item_bytes, tuple sides, list files) except -1:
        cdef Names* n = self.names
        cdef ArrayFiles* a
        cdef int64_t total = 0, i
        cdef bytes head
        cdef dict starts = {}  # by header: nearly all headers are the same
        if len(files) != n.count or len(sides) > MAX_DIMS:
            raise ValueError("each file has one array, of no more sides than an array has")
        a = n.arrays = <ArrayFiles*>calloc(1, sizeof(ArrayFiles))
        if a == NULL:
            raise MemoryError
        for head, _, _ in files:
            if len(head) > MOST_HEAD:
                raise ValueError("a header is too long")
            if head not in starts:
                starts[head] = total
                total += len(head)
        a.files = <ArrayFile*>calloc(n.count if n.count else 1, sizeof(ArrayFile))
        a.heads = <char*>malloc(total if total else 1)
        if a.files == NULL or a.heads == NULL:
            raise MemoryError
        for head, i in starts.items():
            memcpy(a.heads + i, <const char*>head, len(head))
        for i, (head, rows, by_columns) in enumerate(files):
            a.files[i].head = a.heads + <int64_t>starts[head]
            a.files[i].head_bytes = len(head)
            a.files[i].rows = rows
            a.files[i].by_columns = by_columns
        a.item_bytes = item_bytes
        a.ndim = len(sides)
        for i in range(a.ndim):
            a.sides[i] = sides[i]
        return 0

    cdef int _set_store(self, store) except -1:
        self.store_number = 0 if store is None else store.number
        self.store = store
        return 0

    def __dealloc__(self):
        names_drop(self.names)

    def stored(self, store):
        """Return the list of the same files, opened by another store."""
        cdef FileList files = FileList.__new__(FileList, ())
        names_drop(files.names)
        self.names.refs.fetch_add(1, kRelaxed)  # relaxed: this list holds a reference
        files.names = self.names
        files.rest = self.rest
        files.remote = self.remote
        files._set_store(store)
        return files

    def __len__(self):
        self.at_least(MOST_FILES)
        return self.names.count

    def __getitem__(self, int64_t i):
        if not 0 <= i < self.names.count:
            self.at_least(MOST_FILES)
        if i < 0:
            i += self.names.count
        if i < 0 or i >= self.names.count:
            raise IndexError("file index out of range")
        return <bytes>name_of(self.names, i)

    @property
    def known(self):
        """Number of names that are known so far."""
        return self.names.count

    @property
    def parts(self):
        """Number of parts of the listing that were added."""
        return self.names.parts

    @property
    def whole(self):
        """True if all names are known."""
        return self.names.whole

    @property
    def digest(self):
        """64-bit hash of the names, in order."""
        cdef uint64_t h
        cdef int64_t i
        self.at_least(MOST_FILES)
        h = self.names.digest.load(kRelaxed)  # relaxed: a cache of a pure function
        if h == 0:
            h = 14695981039346656037u
            for i in range(self.names.count):
                h = _hash_bytes(h, name_of(self.names, i), strlen(name_of(self.names, i)) + 1)
            h |= 1
            self.names.digest.store(h, kRelaxed)
        return h


cdef uint64_t _hash_bytes(uint64_t h, const char* p, int64_t n) noexcept nogil:
    # FNV-1a: it notices accidents; there is no secret to keep.
    cdef int64_t i
    for i in range(n):
        h = (h ^ <unsigned char>p[i]) * 1099511628211u
    return h


cdef void names_drop(Names* names) noexcept nogil:
    cdef NameText* text
    cdef int64_t k
    # acq_rel (release: this holder is done; acquire: the last one sees that of all others) pairs with itself
    if names == NULL or names.refs.fetch_sub(1, kAcqRel) != 1:
        return
    if names.arrays != NULL:
        free(names.arrays.files)
        free(names.arrays.heads)
        free(names.arrays)
    while names.texts != NULL:
        text = names.texts
        names.texts = text.before
        free(text)
    if names.blocks != NULL:
        for k in range(names.rooms):
            if names.blocks[k] == NULL:
                break
            free(names.blocks[k])
    free(names.blocks)
    free(names)
