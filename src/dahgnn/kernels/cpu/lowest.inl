// The points with which a row has the lowest scalar products: a product of matrices of which only the lowest numbers
// are kept. Numbers are of bfloat16, two of them in a word, and products are added up in single precision.

// Points of a panel, whose words lie in memory number by number: the first of all its points, then the second, ...
constexpr int64_t PANEL = 32;

// Adds to each sum the products of two numbers with two of its point.
template <int N, bool PAIRS>
INLINE Vector<float, N> add_pairs(const Vector<float, N>& sums, uint32_t pair, const Vector<uint32_t, N>& points) {
    using V = Vector<float, N>;
    using W = Vector<uint32_t, N>;
    const W pairs = W{} + pair;
    if constexpr (PAIRS) {
        return reinterpret_cast<V>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sums), reinterpret_cast<__m512bh>(pairs),
                                                    reinterpret_cast<__m512bh>(points)));
    } else {
        // With sixteen zeros behind it a number is one of single precision.
        const V low = reinterpret_cast<V>(W(pairs << 16)) * reinterpret_cast<V>(W(points << 16));
        const V high = reinterpret_cast<V>(W(pairs & 0xFFFF0000u)) * reinterpret_cast<V>(W(points & 0xFFFF0000u));
        return sums + low + high;
    }
}

// The lowest products of a row so far, and their points: keys that are in the order of the products, then of the points.
class Lowest {
    uint64_t* keys = nullptr;
    int64_t length = 0, count = 0;
    float limit = 0;

    static INLINE uint64_t key(float value, int64_t point) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        bits = bits >> 31 ? ~bits : bits | 0x80000000u;
        return static_cast<uint64_t>(bits) << 32 | static_cast<uint32_t>(point);
    }
    static INLINE float value(uint64_t key) {
        uint32_t bits = static_cast<uint32_t>(key >> 32);
        bits = bits >> 31 ? bits & 0x7FFFFFFFu : ~bits;
        float number;
        std::memcpy(&number, &bits, sizeof(bits));
        return number;
    }
    void shorten() {
        std::nth_element(keys, keys + length - 1, keys + count);
        count = length, limit = value(keys[length - 1]);
    }

   public:
    // Keys that a list of a length needs room for: it is shortened now and then.
    static int64_t room(int64_t length) { return 4 * length + PANEL + 1; }

    void start(uint64_t* room, int64_t most) {
        keys = room, length = most, count = 0, limit = std::numeric_limits<float>::infinity();
    }
    // Takes what is lower than the last of the list among the products with the points of a panel.
    INLINE void offer(const float* products, int64_t first) {
        int below = 0;
        for (int64_t j = 0; j < PANEL; ++j) below |= products[j] < limit;
        if (!below) return;
        uint64_t some[PANEL];
        for (int64_t j = 0; j < PANEL; ++j) some[j] = key(products[j], first + j);
        for (int64_t j = 0; j < PANEL; ++j) keys[count] = some[j], count += products[j] < limit;  // which no guess slows
        if (count > room(length) - PANEL - 1) shorten();
    }
    void write(float* values, int64_t* points) {
        while (count < length) keys[count++] = key(limit, 0);  // products that are not below infinity
        if (count > length) std::nth_element(keys, keys + length - 1, keys + count);
        std::sort(keys, keys + length);
        for (int64_t j = 0; j < length; ++j) values[j] = value(keys[j]), points[j] = keys[j] & 0xFFFFFFFFu;
    }
};

// What the products are made of: rows (rows, words), and panels (panels, words, PANEL) of points.
struct Paired {
    int64_t words, points;
    const uint32_t *rows, *panels;
    const int64_t* left_out;  // the point that a row does not list; missing if it lists all
};

// The products of R rows with a panel, each of which goes to the list of its row.
template <int R>
void list_products(const Paired& of, int64_t row, int64_t panel, Lowest* lists) {
    constexpr int N = lanes<float>, PARTS = PANEL / N;
    using W = Vector<uint32_t, N>;
    const uint32_t *const left = of.rows + row * of.words, *const right = of.panels + panel * of.words * PANEL;
    Vector<float, N> sums[R][PARTS] = {};
    for (int64_t word = 0; word < of.words; ++word) {
        W line[PARTS];
        for (int p = 0; p < PARTS; ++p) line[p] = load<W>(right + word * PANEL + p * N);
        for (int r = 0; r < R; ++r)
            for (int p = 0; p < PARTS; ++p)
                sums[r][p] = add_pairs<N, PAIRS>(sums[r][p], left[r * of.words + word], line[p]);
    }
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const int64_t first = panel * PANEL, points = std::min(PANEL, of.points - first);
    for (int r = 0; r < R; ++r) {
        float products[PANEL];
        std::memcpy(products, sums[r], sizeof(products));
        for (int64_t j = points; j < PANEL; ++j) products[j] = infinity;
        const int64_t place = of.left_out ? of.left_out[row + r] - first : -1;
        if (place >= 0 && place < PANEL) products[place] = infinity;
        lists[r].offer(products, first);
    }
}

// Lists for each row the ``length`` lowest products, the lowest first, and their points, ties by the lower number.
void lowest_products(int threads, int64_t rows, int64_t length, const Paired& of, float* values, int64_t* points) {
    constexpr int R = LANES == 16 ? 12 : LANES == 8 ? 3 : 1;  // what registers hold
    // So many rows at a time that they stay in the cache while all panels stream past.
    const int64_t cached = std::max<int64_t>(1, (int64_t(3) << 17) / (4 * std::max<int64_t>(1, of.words)) / R);
    const int64_t share = (rows + threads * R - 1) / (threads * R);
    const int64_t block = R * std::max<int64_t>(1, std::min({cached, share, int64_t(240) / R}));
    parallel(threads, rows, block, [&](int64_t begin, int64_t end) {
        std::vector<uint64_t> room((end - begin) * Lowest::room(length));
        std::vector<Lowest> lists(end - begin);
        for (int64_t i = begin; i < end; ++i)
            lists[i - begin].start(room.data() + (i - begin) * Lowest::room(length), length);
        for (int64_t panel = 0; panel * PANEL < of.points; ++panel) {
            int64_t i = begin;
            for (; i + R <= end; i += R) list_products<R>(of, i, panel, lists.data() + i - begin);
            for (; i < end; ++i) list_products<1>(of, i, panel, lists.data() + i - begin);
        }
        for (int64_t i = begin; i < end; ++i)
            lists[i - begin].write(values + i * length, points + i * length);
    });
}
