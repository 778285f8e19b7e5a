// Dropout whose mask is computed, never stored. Philox (Salmon et al., 2011) draws 128 bits from a counter, the epoch
// and the site, with the seed of the run as its key: 16 bits for each of eight units in a row. The kernel of a GPU
// draws the same.

// The draws of ``LANES`` counters in a row, of which only the last bits differ.
struct Draws {
    typedef Vector<uint32_t, LANES> V;
    V words[4];

    INLINE static void multiply(const V& x, uint32_t factor, V& high, V& low) {
        typedef Vector<uint64_t, LANES / 2> W;
        constexpr uint64_t mask = 0xFFFFFFFFu;
        const W pairs = reinterpret_cast<W>(x), even = (pairs & mask) * uint64_t(factor);
        const W odd = (pairs >> 32) * uint64_t(factor);
        high = reinterpret_cast<V>((even >> 32) | (odd & ~mask));
        low = reinterpret_cast<V>((even & mask) | (odd << 32));
    }
    INLINE Draws(uint64_t counter, uint32_t epoch, uint32_t site, uint64_t seed) {
        V c0 = V{} + static_cast<uint32_t>(counter), c1 = V{} + static_cast<uint32_t>(counter >> 32);
        V c2 = V{} + epoch, c3 = V{} + site;
        for (int j = 0; j < LANES; ++j) c0[j] += j;
        uint32_t first_key = static_cast<uint32_t>(seed), second_key = static_cast<uint32_t>(seed >> 32);
        for (int round = 0; round < 10; ++round) {
            V high0, low0, high2, low2;
            multiply(c0, 0xD2511F53u, high0, low0);
            multiply(c2, 0xCD9E8D57u, high2, low2);
            c0 = high2 ^ c1 ^ first_key, c1 = low2;
            c2 = high0 ^ c3 ^ second_key, c3 = low0;
            first_key += 0x9E3779B9u, second_key += 0xBB67AE85u;
        }
        words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
    }
};

// The units of one run from ``place`` on; those that fall become zero and the others grow.
template <typename T>
INLINE void drop_span(uint64_t place, int64_t count, uint32_t epoch, uint32_t site, uint64_t seed, uint32_t least,
                      T scale, const T* from, T* to) {
    constexpr int64_t UNITS = 8 * LANES;
    uint16_t bits[UNITS];
    for (int64_t done = 0; done < count;) {
        // The counters begin at a multiple of their number, so that none of them wraps around alone.
        const uint64_t base = (place + done) / UNITS * UNITS;
        const Draws draws(base / 8, epoch, site, seed);
        uint32_t lanes[4][LANES];
        for (int w = 0; w < 4; ++w) store(lanes[w], draws.words[w]);
        for (int j = 0; j < LANES; ++j)
            for (int w = 0; w < 4; ++w) {
                bits[8 * j + 2 * w] = static_cast<uint16_t>(lanes[w][j]);
                bits[8 * j + 2 * w + 1] = static_cast<uint16_t>(lanes[w][j] >> 16);
            }
        const int64_t skip = static_cast<int64_t>(place + done - base), some = std::min(UNITS - skip, count - done);
        for (int64_t j = 0; j < some; ++j) to[done + j] = bits[skip + j] >= least ? from[done + j] * scale : T(0);
        done += some;
    }
}

// Values and result are (rows, runs, units), and ``epochs`` the last epoch behind each run; a unit's place is that of its row and itself, whatever the runs.
template <typename T>
void dropout(int threads, int64_t rows, int64_t runs, int64_t units, const int64_t* seeds, const int64_t* epochs,
             int64_t site, double rate, const T* values, T* result) {
    const uint32_t least = static_cast<uint32_t>(std::ceil(rate * 65536));
    const T scale = T(1 / (1 - rate));
    parallel(threads, rows, [&](int64_t begin, int64_t end) {
        if (runs == 1) {
            drop_span(begin * units, (end - begin) * units, epochs[0] + 1, site, seeds[0], least, scale,
                      values + begin * units, result + begin * units);
            return;
        }
        for (int64_t row = begin; row < end; ++row)
            for (int64_t run = 0; run < runs; ++run) {
                const int64_t offset = (row * runs + run) * units;
                drop_span(row * units, units, epochs[run] + 1, site, seeds[run], least, scale, values + offset, result + offset);
            }
    });
}
