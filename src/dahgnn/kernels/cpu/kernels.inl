// What all kernels share: vectors, exponentials, blocks of rows. Included once for each instruction set, with
// LANES the numbers of single precision in one of its vectors.

template <typename T, int N>
struct VectorOf {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <typename T, int N>
using Vector = typename VectorOf<T, N>::type;
template <typename T>
using Integer = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// Numbers in a vector; at least four, which the compiler makes of smaller vectors where it must.
template <typename T>
constexpr int lanes = std::max(4, LANES * 4 / static_cast<int>(sizeof(T)));

template <typename T>
INLINE void copy(T* to, const T* from, int64_t count) {
    std::memcpy(to, from, count * sizeof(T));
}
template <typename V, typename T>
INLINE V load(const T* from) {
    V vector;
    std::memcpy(&vector, from, sizeof(V));
    return vector;
}
template <typename V, typename T>
INLINE void store(T* to, const V& vector) {
    std::memcpy(to, &vector, sizeof(V));
}
// Writes numbers past the caches, as lines that are written whole, which then are not read before. It pays for what is
// not read again before the caches have forgotten it.
template <typename T>
INLINE void stream(T* to, const T* from, int64_t count) {
#if defined(__x86_64__) && defined(__GNUC__)
    if constexpr (LANES == 16) {
        constexpr int64_t LINE = 64 / sizeof(T);
        if (count % LINE == 0 && reinterpret_cast<uintptr_t>(to) % 64 == 0) {
            for (int64_t j = 0; j < count; j += LINE)
                _mm512_stream_si512(reinterpret_cast<__m512i*>(to + j),
                                    _mm512_loadu_si512(reinterpret_cast<const void*>(from + j)));
            return;
        }
    }
#endif
    copy(to, from, count);
}
// Has other threads see what was written past the caches.
INLINE void settle() {
#if defined(__x86_64__) && defined(__GNUC__)
    _mm_sfence();
#endif
}
// Bytes from which on they are more than the caches hold.
constexpr int64_t LARGE = 1 << 25;

// The second of the two where one is not a number.
template <typename V>
INLINE V larger(const V& a, const V& b) {
    return a > b ? a : b;
}
template <typename V>
INLINE V smaller(const V& a, const V& b) {
    return a < b ? a : b;
}

// Four numbers over and over.
template <typename T, int N>
INLINE Vector<T, N> repeat_four(const T* from) {
    const Vector<T, 4> four = load<Vector<T, 4>>(from);
    if constexpr (N == 4)
        return four;
    else if constexpr (sizeof(T) == 8)
        return _mm512_maskz_broadcast_f64x4(0xff, four);  // without a mask gcc warns
    else if constexpr (N == 8)
        return _mm256_broadcast_ps(&four);
    else
        return _mm512_maskz_broadcast_f32x4(0xffff, four);
}

// Combines numbers that stand ``STEP`` apart, the result in place of each.
template <typename T, int N, int STEP, typename Operation>
INLINE Vector<T, N> fold(const Vector<T, N>& all, Operation operation) {
    Vector<T, N> v = all;
    using M = Vector<Integer<T>, N>;
    if constexpr (N == 16 && STEP <= 8)
        v = operation(v, SHUFFLE(M, v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    if constexpr (N == 16 && STEP <= 4)
        v = operation(v, SHUFFLE(M, v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    if constexpr (N == 16 && STEP <= 2)
        v = operation(v, SHUFFLE(M, v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    if constexpr (N == 16 && STEP <= 1)
        v = operation(v, SHUFFLE(M, v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    if constexpr (N == 8 && STEP <= 4) v = operation(v, SHUFFLE(M, v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    if constexpr (N == 8 && STEP <= 2) v = operation(v, SHUFFLE(M, v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    if constexpr (N == 8 && STEP <= 1) v = operation(v, SHUFFLE(M, v, v, 1, 0, 3, 2, 5, 4, 7, 6));
    if constexpr (N == 4 && STEP <= 2) v = operation(v, SHUFFLE(M, v, v, 2, 3, 0, 1));
    if constexpr (N == 4 && STEP <= 1) v = operation(v, SHUFFLE(M, v, v, 1, 0, 3, 2));
    return v;
}

// Four by four numbers, lines to columns.
template <typename T>
INLINE void transpose(Vector<T, 4> (&v)[4]) {
    using V = Vector<T, 4>;
    using M = Vector<Integer<T>, 4>;
    const V a = SHUFFLE(M, v[0], v[1], 0, 4, 1, 5), b = SHUFFLE(M, v[2], v[3], 0, 4, 1, 5);
    const V c = SHUFFLE(M, v[0], v[1], 2, 6, 3, 7), d = SHUFFLE(M, v[2], v[3], 2, 6, 3, 7);
    v[0] = SHUFFLE(M, a, b, 0, 1, 4, 5), v[1] = SHUFFLE(M, a, b, 2, 3, 6, 7);
    v[2] = SHUFFLE(M, c, d, 0, 1, 4, 5), v[3] = SHUFFLE(M, c, d, 2, 3, 6, 7);
}
// The sum of each of four vectors.
template <typename T>
INLINE Vector<T, 4> add_columns(Vector<T, 4> (&v)[4]) {
    using V = Vector<T, 4>;
    using M = Vector<Integer<T>, 4>;
    const V a = SHUFFLE(M, v[0], v[1], 0, 2, 4, 6) + SHUFFLE(M, v[0], v[1], 1, 3, 5, 7);
    const V b = SHUFFLE(M, v[2], v[3], 0, 2, 4, 6) + SHUFFLE(M, v[2], v[3], 1, 3, 5, 7);
    return SHUFFLE(M, a, b, 0, 2, 4, 6) + SHUFFLE(M, a, b, 1, 3, 5, 7);
}
// Four lines of eight numbers to eight of four, and back.
template <typename T>
INLINE void transpose_in(const T* from, T* to) {
    if constexpr (lanes<T> == 16) {
        using V = Vector<T, 16>;
        using M = Vector<Integer<T>, 16>;
        const V a = load<V>(from), b = load<V>(from + 16);
        store(to, V(SHUFFLE(M, a, b, 0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27)));
        store(to + 16, V(SHUFFLE(M, a, b, 4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31)));
    } else {
        for (int half = 0; half < 8; half += 4) {
            Vector<T, 4> v[4];
            for (int j = 0; j < 4; ++j) v[j] = load<Vector<T, 4>>(from + 8 * j + half);
            transpose<T>(v);
            for (int j = 0; j < 4; ++j) store(to + 4 * (half + j), v[j]);
        }
    }
}
template <typename T>
INLINE void transpose_out(const T* from, T* to) {
    if constexpr (lanes<T> == 16) {
        using V = Vector<T, 16>;
        using M = Vector<Integer<T>, 16>;
        const V a = load<V>(from), b = load<V>(from + 16);
        store(to, V(SHUFFLE(M, a, b, 0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29)));
        store(to + 16, V(SHUFFLE(M, a, b, 2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31)));
    } else {
        for (int half = 0; half < 8; half += 4) {
            Vector<T, 4> v[4];
            for (int j = 0; j < 4; ++j) v[j] = load<Vector<T, 4>>(from + 4 * (half + j));
            transpose<T>(v);
            for (int j = 0; j < 4; ++j) store(to + 8 * j + half, v[j]);
        }
    }
}

// exp(x) = scale + scale * (the number returned) for x <= 0, to about one unit in the last place: range
// reduction and a polynomial (Cephes), unlike the library's a vector at a time.
template <int N>
INLINE Vector<float, N> exponential_minus_one(Vector<float, N> x, Vector<float, N>& scale) {
    using V = Vector<float, N>;
    using M = Vector<int32_t, N>;
    x = larger<V>(V{} - 87.0f, x);
    // Adding 1.5 * 2^23 leaves the nearest whole number in the last bits.
    const V shifted = x * 1.44269504088896341f + 12582912.0f, n = shifted - 12582912.0f;
    const V r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    V p = V{} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    scale = reinterpret_cast<V>((reinterpret_cast<M>(shifted) << 23) + (127 << 23));
    return p * (r * r) + r;
}
template <typename T, int N>
INLINE Vector<T, N> exponential(const Vector<T, N>& x) {
    Vector<T, N> y = {};
    if constexpr (sizeof(T) == 4) {
        Vector<T, N> scale;
        y = exponential_minus_one<N>(x, scale);
        y = y * scale + scale;
    } else {
        for (int j = 0; j < N; ++j) y[j] = std::exp(x[j]);
    }
    return y;
}
template <typename T, int N>
INLINE Vector<T, N> elu(const Vector<T, N>& x) {
    using V = Vector<T, N>;
    V y = {};
    if constexpr (sizeof(T) == 4) {
        V scale;
        y = exponential_minus_one<N>(smaller<V>(V{}, x), scale);
        y = larger<V>(V{}, x) + (y * scale + (scale - 1.0f));  // one of the two is zero: no branch
    } else {
        for (int j = 0; j < N; ++j) y[j] = x[j] > 0 ? x[j] : std::expm1(x[j]);
    }
    return y;
}

constexpr int64_t round_up(int64_t number, int64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

// Whole lines of the cache.
template <typename T>
class Buffer {
    std::vector<T> storage;
    T* aligned = nullptr;
    size_t room = 0;

   public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    T* data() const { return aligned; }
    void fit(size_t size) {
        if (size <= room) return;
        storage.assign(2 * size + 64 / sizeof(T), T(0));
        aligned = reinterpret_cast<T*>(round_up(reinterpret_cast<uintptr_t>(storage.data()), 64));
        room = 2 * size;
    }
};

// Rows of a block: the unit of work of a thread and of partial sums, whatever the number of threads.
constexpr int64_t BLOCK = 128;

constexpr int64_t count_blocks(int64_t rows) { return round_up(rows, BLOCK) / BLOCK; }

// Calls ``work(begin, end)`` on blocks of rows, shared among the threads.
template <typename Work>
void parallel(int threads, int64_t rows, int64_t block, Work work) {
    const int64_t blocks = (rows + block - 1) / block;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (blocks > 1)
    for (int64_t b = 0; b < blocks; ++b) {
        work(b * block, std::min(rows, (b + 1) * block));
        settle();
    }
}
// Rows from which on threads share them. On fewer, waiting for each other takes longer than the work; where other
// programs keep the cores busy, much longer.
constexpr int64_t SHARED_ROWS = 2048;

template <typename Work>
void parallel(int threads, int64_t rows, Work work) {
    parallel(rows < SHARED_ROWS ? 1 : threads, rows, BLOCK, work);
}
