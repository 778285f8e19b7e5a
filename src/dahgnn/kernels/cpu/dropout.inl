// Dropout whose mask is computed, never stored. Philox (Salmon et al., 2011) draws 128 bits from a counter, the epoch
// and the site, with the seed of the run as its key: 16 bits for each of eight units in a row. The kernel of a GPU
// draws the same.

// Counters in a vector: each has 64 bits, of which the lower 32 hold a word and the others anything.
constexpr int COUNTERS = LANES / 2;
typedef Vector<uint64_t, COUNTERS> Words;

// Products of the words with a factor, 64 bits each.
template <int N>
INLINE Vector<uint64_t, N> multiply_words(const Vector<uint64_t, N>& words, uint32_t factor) {
    using W = Vector<uint64_t, N>;
    const W factors = W{} + uint64_t(factor);
    if constexpr (N == 8)
        return reinterpret_cast<W>(  // without a mask gcc warns
            _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(words), reinterpret_cast<__m512i>(factors)));
    else if constexpr (N == 4)
        return reinterpret_cast<W>(
            _mm256_mul_epu32(reinterpret_cast<__m256i>(words), reinterpret_cast<__m256i>(factors)));
    else
        return (words & uint64_t(0xFFFFFFFFu)) * factors;
}

// Stores a byte for each of eight units of each counter: -1 where its 16 bits are at least ``least``, else 0.
template <int N>
INLINE void store_stays(const Vector<uint64_t, N> (&words)[4], uint32_t least, int8_t* stays) {
    using W = Vector<uint64_t, N>;
    using H = Vector<uint16_t, 4 * N>;
    const uint64_t mask = 0xFFFFFFFFu;
    const W bits[2] = {(words[0] & mask) | (words[1] << 32), (words[2] & mask) | (words[3] << 32)};
    if constexpr (N >= 4) {
        H halves[2];  // of 16 bits for each unit: 0xFFFF where it stays
        for (int h = 0; h < 2; ++h)
            halves[h] = reinterpret_cast<H>(reinterpret_cast<H>(bits[h]) >= static_cast<uint16_t>(least));
        // Packing alternates between the halves within 128 bits.
        if constexpr (N == 8) {
            const __m512i packed = _mm512_packs_epi16(reinterpret_cast<__m512i>(halves[0]),
                                                      reinterpret_cast<__m512i>(halves[1]));
            _mm512_storeu_si512(stays, _mm512_maskz_shuffle_epi32(0xffff, packed, _MM_PERM_DBCA));
        } else {
            const __m256i packed = _mm256_packs_epi16(reinterpret_cast<__m256i>(halves[0]),
                                                      reinterpret_cast<__m256i>(halves[1]));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(stays), _mm256_shuffle_epi32(packed, 0xD8));
        }
    } else {
        uint16_t units[2][4 * N];
        for (int h = 0; h < 2; ++h) std::memcpy(units[h], &bits[h], sizeof(W));
        for (int c = 0; c < N; ++c)
            for (int u = 0; u < 8; ++u) stays[8 * c + u] = units[u / 4][4 * c + u % 4] >= least ? -1 : 0;
    }
}

// The draws of counters in a row, of which only the last bits differ: two vectors, since in one each round would wait
// for the one before.
struct Draws {
    Words words[2][4];

    INLINE Draws(uint64_t counter, uint32_t epoch, uint32_t site, uint64_t seed) {
        for (int v = 0; v < 2; ++v) {
            words[v][0] = Words{} + (counter & 0xFFFFFFFFu), words[v][1] = Words{} + (counter >> 32);
            words[v][2] = Words{} + uint64_t(epoch), words[v][3] = Words{} + uint64_t(site);
            for (int j = 0; j < COUNTERS; ++j) words[v][0][j] += v * COUNTERS + j;
        }
        uint32_t first_key = static_cast<uint32_t>(seed), second_key = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
        for (int round = 0; round < 10; ++round) {
            for (auto& c : words) {
                const Words product0 = multiply_words<COUNTERS>(c[0], 0xD2511F53u);
                const Words product2 = multiply_words<COUNTERS>(c[2], 0xCD9E8D57u);
                c[0] = (product2 >> 32) ^ c[1] ^ uint64_t(first_key), c[1] = product2;
                c[2] = (product0 >> 32) ^ c[3] ^ uint64_t(second_key), c[3] = product0;
            }
            first_key += 0x9E3779B9u, second_key += 0xBB67AE85u;
        }
    }
    // Stores a byte for each of eight units of each counter, see `store_stays`.
    INLINE void store_all(uint32_t least, int8_t* stays) const {
        for (int v = 0; v < 2; ++v) store_stays<COUNTERS>(words[v], least, stays + 8 * COUNTERS * v);
    }
};

// What decides which units fall; without seeds none does.
struct Dropping {
    const int64_t *seeds, *epochs;  // of each run; ``epochs`` is the last epoch behind it
    int64_t site;
    double rate;
    const int64_t* numbers = nullptr;  // of the rows, where they are some of many; else they are 0, 1, ...

    int64_t number(int64_t row) const { return numbers ? numbers[row] : row; }
    template <typename T>
    T scale() const {
        return T(1 / (1 - rate));
    }
    // Writes for the units of a run from ``place`` on whether they stay: -1, or 0 for those that fall.
    INLINE void decide(int64_t run, uint64_t place, int64_t count, int8_t* stays) const {
        constexpr int64_t UNITS = 16 * COUNTERS;
        const uint32_t least = static_cast<uint32_t>(std::ceil(rate * 65536));
        if (least > 0xFFFF) {  // of such rates none stays
            std::memset(stays, 0, count);
            return;
        }
        for (int64_t done = 0; done < count;) {
            // The counters begin at a multiple of their number, so that none of them wraps around alone.
            const uint64_t base = (place + done) / UNITS * UNITS;
            const Draws draws(base / 8, static_cast<uint32_t>(epochs[run] + 1), static_cast<uint32_t>(site),
                              seeds[run]);
            const int64_t skip = static_cast<int64_t>(place + done - base), some = std::min(UNITS - skip, count - done);
            if (some == UNITS) {
                draws.store_all(least, stays + done);
            } else {
                int8_t all[UNITS];
                draws.store_all(least, all);
                std::memcpy(stays + done, all + skip, some);
            }
            done += some;
        }
    }
};

// Bytes as numbers of as many bits as T; the compiler's own way is one by one.
template <typename T, int N>
INLINE Vector<Integer<T>, N> widen(const int8_t* bytes) {
    using M = Vector<Integer<T>, N>;
    if constexpr (N == 16) {
        const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
        return reinterpret_cast<M>(_mm512_maskz_cvtepi8_epi32(0xffff, all));
    } else if constexpr (N == 8 && sizeof(T) == 8) {
        const __m128i all = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
        return reinterpret_cast<M>(_mm512_maskz_cvtepi8_epi64(0xff, all));
    } else if constexpr (N == 8) {
        const __m128i all = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
        return reinterpret_cast<M>(_mm256_cvtepi8_epi32(all));
    } else {
        M wide;
        for (int j = 0; j < N; ++j) wide[j] = bytes[j];
        return wide;
    }
}

// The numbers that stay, zero in place of the others.
template <typename T, int N>
INLINE Vector<T, N> leave(const Vector<T, N>& numbers, const int8_t* stays) {
    using M = Vector<Integer<T>, N>;
    const M mask = widen<T, N>(stays);
    return reinterpret_cast<Vector<T, N>>(reinterpret_cast<M>(numbers) & mask);
}

// The numbers that stay, zero with a sign in place of the others.
template <typename T, int N>
INLINE Vector<T, N> mark(const Vector<T, N>& numbers, const int8_t* stays) {
    using M = Vector<Integer<T>, N>;
    const M mask = widen<T, N>(stays), zeros = reinterpret_cast<M>(-Vector<T, N>{});
    return reinterpret_cast<Vector<T, N>>((reinterpret_cast<M>(numbers) & mask) | (zeros & ~mask));
}

// Calls ``work(from, count, stays)`` for the units of rows begin ... end in pieces that lie in a row in memory: a
// piece begins ``from`` numbers behind the first row's, and ``stays`` tells which of its units stay.
template <typename Work>
INLINE void for_units(const Dropping& dropping, int64_t runs, int64_t units, int64_t begin, int64_t end, Work work) {
    constexpr int64_t MOST = 1024;
    int8_t stays[MOST];
    const int64_t pieces = runs == 1 ? 1 : (end - begin) * runs, size = runs == 1 ? (end - begin) * units : units;
    for (int64_t piece = 0; piece < pieces; ++piece)
        for (int64_t done = 0; done < size; done += MOST) {
            const int64_t count = std::min(MOST, size - done);
            dropping.decide(piece % runs, (begin + piece / runs) * units + done, count, stays);
            work((begin * runs + piece) * units + done, count, stays);
        }
}

// Values and result are (rows, runs, units); a unit's place is that of its row and itself, whatever the runs.
template <typename T>
void dropout(int threads, int64_t rows, int64_t runs, int64_t units, const Dropping& dropping, const T* values,
             T* result) {
    constexpr int N = lanes<T>;
    const T scale = dropping.scale<T>();
    parallel(threads, rows, [&](int64_t begin, int64_t end) {
        for_units(dropping, runs, units, begin, end, [&](int64_t from, int64_t count, const int8_t* stays) {
            int64_t j = 0;
            for (; j + N <= count; j += N)
                store(result + from + j, leave<T, N>(load<Vector<T, N>>(values + from + j) * scale, stays + j));
            for (; j < count; ++j) result[from + j] = stays[j] ? values[from + j] * scale : T(0);
        });
    });
}
