// What the leaves of decision trees say of rows: the mean over the trees of each part.

struct Forest {
    int64_t nodes, parts, trees, classes;
    const int64_t* columns;       // (nodes,), negative at a leaf
    const double* thresholds;     // (nodes,)
    const int64_t* children;      // (nodes, 2)
    const double* distributions;  // (nodes, classes)
    const int64_t* roots;         // (parts, trees)
};

// A node in one piece. A leaf leads to itself, so that a row may walk on without being asked where it is.
struct TreeNode {
    double threshold;
    int32_t column, children[2];
};

// Rows that walk side by side, so that none waits for the memory that another asks for, and rows that go through a
// tree one after the other while its nodes are in the cache.
constexpr int64_t WALKERS = 16, ROWS_AT_ONCE = 512;

inline std::vector<TreeNode> pack_nodes(const Forest& forest) {
    std::vector<TreeNode> nodes(forest.nodes);
    for (int32_t node = 0; node < forest.nodes; ++node) {
        const bool leaf = forest.columns[node] < 0;
        const int64_t* const children = forest.children + 2 * node;
        nodes[node] = {forest.thresholds[node], leaf ? 0 : int32_t(forest.columns[node]),
                       {leaf ? node : int32_t(children[0]), leaf ? node : int32_t(children[1])}};
    }
    return nodes;
}

// Takes rows (width) from the root of a tree to their leaves; those behind ``count`` repeat the last.
INLINE void walk(const TreeNode* nodes, int64_t count, int64_t width, const float* rows, int32_t root,
                 int32_t* leaves) {
    std::fill(leaves, leaves + WALKERS, root);
    for (bool under_way = true; under_way;) {
        int32_t moved = 0;
        for (int64_t i = 0; i < WALKERS; ++i) {
            const TreeNode& node = nodes[leaves[i]];
            // What is no number goes left, as for the twin: it is not above.
            const bool above = rows[std::min(i, count - 1) * width + node.column] > node.threshold;
            const int32_t next = node.children[above];
            moved |= next ^ leaves[i];
            leaves[i] = next;
        }
        under_way = moved != 0;
    }
}

// Writes the means (count, parts, classes) for rows (count, width).
inline void tree_means(int threads, int64_t count, int64_t width, const Forest& forest, const float* rows,
                       double* means) {
    const int64_t each = forest.parts * forest.classes;
    const std::vector<TreeNode> nodes = pack_nodes(forest);
    parallel(threads, count, [&](int64_t begin, int64_t end) {
        std::fill(means + begin * each, means + end * each, 0.0);
        for (int64_t first = begin; first < end; first += ROWS_AT_ONCE) {
            const int64_t last = std::min(end, first + ROWS_AT_ONCE);
            for (int64_t tree = 0; tree < forest.parts * forest.trees; ++tree) {
                const int64_t offset = tree / forest.trees * forest.classes;
                for (int64_t i = first; i < last; i += WALKERS) {
                    int32_t leaves[WALKERS];
                    const int64_t walkers = std::min(WALKERS, last - i);
                    walk(nodes.data(), walkers, width, rows + i * width, int32_t(forest.roots[tree]), leaves);
                    for (int64_t w = 0; w < walkers; ++w) {
                        const double* const said = forest.distributions + leaves[w] * forest.classes;
                        double* const mean = means + (i + w) * each + offset;
                        for (int64_t c = 0; c < forest.classes; ++c) mean[c] += said[c];
                    }
                }
            }
            for (int64_t j = first * each; j < last * each; ++j) means[j] /= double(forest.trees);
        }
    });
}
