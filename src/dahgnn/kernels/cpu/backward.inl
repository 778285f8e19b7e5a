// The gradient of Algorithm 1, the density being a constant, in three passes over rows.
//
// A target's row g of gradients before the activation reaches the row of a source as c g, and its score as
// c (<g, v> - mean), with c the coefficient, v the source's row and mean = <g, sum>. The coefficient is computed anew
// from the target's highest score and total, so that a source needs no more of a target than a packet: g; share,
// highest score, 1 / total, mean. What the target's own share gets is known without its sources.

template <typename T>
struct Backward : Messages<T> {
    const T *nodes_gradient, *hyperedges_gradient;  // the latter may be missing
    const T* new_nodes;
    T *kept, *scratch;
    T *wx_gradient, *e_term_gradient, *vectors_gradient;
};

// A group and its packets of targets.
template <typename T, int G, int U>
struct Reverse : Group<T, G, U> {
    T *node_targets, *hyperedge_targets;
    T* to_node;  // (nodes, G), gradients of shares
    std::vector<uint8_t> active_nodes, active_hyperedges;  // those with a gradient

    Reverse(const Messages<T>& call, int64_t first, T* kept, T* scratch)
        : Group<T, G, U>(call, first, kept), active_nodes(call.nodes), active_hyperedges(call.hyperedges) {
        node_targets = scratch;
        hyperedge_targets = node_target(call.nodes + 1);
        to_node = hyperedge_target(call.hyperedges + 1);
    }
    T* node_target(int64_t i) const { return node_targets + i * this->layout.packet(); }
    T* hyperedge_target(int64_t k) const { return hyperedge_targets + k * this->layout.packet(); }
};

// The target that nobody is: every coefficient of it is zero.
template <typename T, int G, int U>
INLINE void write_no_target(const Layout<G, U>& layout, T* packet) {
    std::fill(packet, packet + layout.packet(), T(0));
    std::fill_n(packet + layout.row() + G, G, std::numeric_limits<T>::infinity());
}

// Writes the packet of a target, in which the gradient of its row stands already, and the gradient of its share.
// ``output`` is the row after the activation, if there is one.
template <typename T, int G, int U>
INLINE void write_target(const Group<T, G, U>& group, const T* output, const T* sums, const T* share, T* packet,
                         T* share_gradient) {
    using V = GroupVector<T, G>;
    constexpr int PARTS = Group<T, G, U>::PARTS;
    const auto& layout = group.layout;
    const int64_t row = layout.row();
    for (int64_t j = 0; output && j < row; j += Group<T, G, U>::L)
        store(packet + j, load<V>(packet + j) * (smaller<V>(V{}, load<V>(output + j)) + T(1)));
    V products[PARTS];
    multiply_rows<T, G, U>(layout, {packet, packet, packet, packet}, {sums, sums + row, sums, sums + row}, products);
    T numbers[4 * G];
    std::memcpy(numbers, products, sizeof(numbers));
    const T *const heads = sums + 2 * row, *const lost = heads + 2 * G;
    copy(packet + row, share, G);
    copy(packet + row + G, heads, 2 * G);
    copy(packet + row + 3 * G, numbers, G);
    for (int h = 0; h < G; ++h) share_gradient[h] = numbers[h] * lost[h] - numbers[G + h];
}

template <typename T, int G, int U>
INLINE bool any_nonzero(const Layout<G, U>& layout, const T* row) {
    using V = GroupVector<T, G>;
    V sum = {};
    for (int64_t j = 0; j < layout.row(); j += group_lanes<T, G>) {
        const V numbers = load<V>(row + j);
        sum += numbers > V{} ? numbers : -numbers;
    }
    return fold<T, group_lanes<T, G>, 1>(sum, [](const V& a, const V& b) { return a + b; })[0] != T(0);
}

// Pass 1: the nodes that receive as targets.
template <typename T, int G, int U>
void open_nodes(Reverse<T, G, U>& group, const Backward<T>& call, int64_t begin, int64_t end) {
    const auto& layout = group.layout;
    Buffer<T> output, room;
    output.fit(layout.row()), room.fit(layout.packet());
    for (int64_t number = begin; number < end; ++number) {
        const int64_t i = call.receiver(number);
        T *const packet = group.make_at(group.node_target(i), room.data()), *const to_node = group.to_node + i * G;
        const T* const sums = group.sums_of_receiver(number);
        if (sums) group.read(call.nodes_gradient, number, packet);
        group.active_nodes[i] = sums && any_nonzero<T, G, U>(layout, packet);
        if (!group.active_nodes[i]) {
            std::fill_n(to_node, G, T(0));
            continue;
        }
        std::fill(packet + layout.row(), packet + layout.packet(), T(0));
        if (call.activation) group.read(call.new_nodes, number, output.data());
        write_target<T, G, U>(group, call.activation ? output.data() : nullptr,
                              sums, group.node(i) + layout.row() + 2 * G, packet,
                              to_node);
        group.put(group.node_target(i), packet, layout.packet());
    }
}

// Sums what a source gets from its targets: for its row, and for its share.
template <typename T, int G, int U>
INLINE void collect(const Group<T, G, U>& group, const T* source, const T* scales, const Quads<T>& quads, T* room,
                    T* row_gradient, T* share_gradient) {
    using V = GroupVector<T, G>;
    constexpr int PARTS = Group<T, G, U>::PARTS, L = Group<T, G, U>::L;
    const auto& layout = group.layout;
    const T *const record = source + layout.row(), slope = group.call.slope;
    const V own = repeat<T, G>(record);
    const V bias = (repeat<T, G>(record + G) - repeat<T, G>(scales)) * repeat<T, G>(scales + G);
    V shares[PARTS] = {};
    Sum<T, G, U> sum(layout, room);
    for (int64_t quad = 0; quad < quads.count; ++quad) {
        const T* const* const packets = quads.packets.data() + 4 * quad;
        V fields[4][PARTS], products[PARTS];
        read_records<T, G>(packets, layout.row(), fields);
        multiply_rows<T, G, U>(layout, {source, source, source, source},
                               {packets[0], packets[1], packets[2], packets[3]}, products);
        alignas(64) T weights[4 * G];
        for (int p = 0; p < PARTS; ++p) {
            const V raw = fields[0][p] + own, score = (raw > V{} ? raw : slope * raw) + bias;
            const V weight = exponential<T, L>(score - fields[1][p]) * fields[2][p];
            shares[p] += weight * (products[p] - fields[3][p]) * (raw > V{} ? V{} + T(1) : V{} + slope);
            store(weights + p * L, weight);
        }
        sum.add(weights, packets);
    }
    sum.write(layout, V{} + T(1), row_gradient);
    store_heads<T, G>(share_gradient, add_heads<T, G>(shares));
}

template <typename T, int G, int U>
INLINE void add_row(const Layout<G, U>& layout, const T* factors, const T* row, T* sum) {
    using V = GroupVector<T, G>;
    const V factor = repeat<T, G>(factors);
    for (int64_t j = 0; j < layout.row(); j += group_lanes<T, G>)
        store(sum + j, load<V>(sum + j) + factor * load<V>(row + j));
}

// Which of the targets to look at, as the others have no packet: where all are active, it is quicker not to ask.
inline const uint8_t* choose(const std::vector<uint8_t>& active) {
    return std::count(active.begin(), active.end(), 0) == 0 ? nullptr : active.data();
}

// Pass 2: the hyperedges, first as sources, then as targets.
template <typename T, int G, int U>
void turn_hyperedges(Reverse<T, G, U>& group, const Backward<T>& call, int64_t begin, int64_t end,
                     const uint8_t* active, T* vectors_gradient) {
    const auto& layout = group.layout;
    Quads<T> lists[2];  // of a hyperedge and of the next one, whose packets come from memory meanwhile
    const auto list = [&](int64_t k) {
        if (k < end && group.sums_of_hyperedge(k))  // no gradient reaches the others
            lists[k % 2].list(call.by_hyperedge, k, active, group.node_targets, layout.packet(), call.nodes);
    };
    list(begin);
    Buffer<T> given, room, target;
    given.fit(layout.row()), room.fit(layout.row()), target.fit(layout.packet());
    for (int64_t k = begin; k < end; ++k) {
        const T* const source = group.hyperedge(k);
        T* const packet = group.make_at(group.hyperedge_target(k), target.data());
        const T* const sums = group.sums_of_hyperedge(k);
        T from_share[G] = {}, to_share[G] = {};
        list(k + 1);
        const Quads<T>& quads = lists[k % 2];
        bool any = sums && quads.count > 0;
        if (sums && call.hyperedges_gradient) {
            group.read(call.hyperedges_gradient, k, given.data());
            any |= any_nonzero<T, G, U>(layout, given.data());
        }
        group.active_hyperedges[k] = any;
        if (any) {
            collect<T, G, U>(group, source, group.scales + 2 * G, quads, room.data(), packet, from_share);
            for (int64_t j = 0; j < layout.row() && call.hyperedges_gradient; ++j) packet[j] += given.data()[j];
            std::fill(packet + layout.row(), packet + layout.packet(), T(0));
            add_row<T, G, U>(layout, from_share, group.vector(2), packet);
            add_row<T, G, U>(layout, from_share, source, vectors_gradient + 2 * layout.row());
            write_target<T, G, U>(group, source, sums, source + layout.row() + 2 * G, packet, to_share);
            group.put(group.hyperedge_target(k), packet, layout.packet());
        }
        group.write_term(to_share, call.e_term_gradient, k);
    }
}

// Pass 3: the nodes as sources.
template <typename T, int G, int U>
void close_nodes(const Reverse<T, G, U>& group, const Backward<T>& call, int64_t begin, int64_t end,
                 const uint8_t* active, T* vectors_gradient) {
    const auto& layout = group.layout;
    const int64_t size = layout.row();
    Quads<T> lists[2];  // as in pass 2
    const auto list = [&](int64_t i) {
        if (i < end)
            lists[i % 2].list(call.by_node, i, active, group.hyperedge_targets, layout.packet(), call.hyperedges);
    };
    list(begin);
    Buffer<T> gradient, room;
    gradient.fit(size), room.fit(size);
    for (int64_t i = begin; i < end; ++i) {
        const T *const source = group.node(i), *const to_node = group.to_node + i * G;
        T from_node[G];
        list(i + 1);
        const Quads<T>& quads = lists[i % 2];
        if (quads.count == 0 && active && !group.active_nodes[i]) {  // nothing comes from anywhere
            std::fill_n(gradient.data(), size, T(0));
            group.write(gradient.data(), call.wx_gradient, i);
            continue;
        }
        collect<T, G, U>(group, source, group.scales, quads, room.data(), gradient.data(), from_node);
        add_row<T, G, U>(layout, from_node, group.vector(0), gradient.data());
        add_row<T, G, U>(layout, to_node, group.vector(1), gradient.data());
        add_row<T, G, U>(layout, from_node, source, vectors_gradient);
        add_row<T, G, U>(layout, to_node, source, vectors_gradient + size);
        group.write(gradient.data(), call.wx_gradient, i);
    }
}

template <typename T, int G, int U>
void backward_group(const Backward<T>& call, int64_t first, T* kept) {
    Reverse<T, G, U> group(call, first, kept, call.scratch);
    const auto& layout = group.layout;
    // Whole lines of the cache, so that threads do not wait for each other's.
    const int64_t size = round_up(3 * layout.row(), 16), node_blocks = count_blocks(call.nodes);
    const int64_t blocks = node_blocks + count_blocks(call.hyperedges);
    write_no_target<T, G, U>(layout, group.node_target(call.nodes));
    write_no_target<T, G, U>(layout, group.hyperedge_target(call.hyperedges));
    Buffer<T> partial;
    partial.fit(blocks * size);
    if (call.receivers < call.nodes) std::fill_n(group.to_node, call.nodes * G, T(0));
    parallel(call.threads, call.receivers, [&](int64_t begin, int64_t end) {
        open_nodes<T, G, U>(group, call, begin, end);
    });
    const uint8_t* active = choose(group.active_nodes);
    parallel(call.threads, call.hyperedges, [&](int64_t begin, int64_t end) {
        T* const sums = partial.data() + (node_blocks + begin / BLOCK) * size;
        turn_hyperedges<T, G, U>(group, call, begin, end, active, sums);
    });
    active = choose(group.active_hyperedges);
    parallel(call.threads, call.nodes, [&](int64_t begin, int64_t end) {
        close_nodes<T, G, U>(group, call, begin, end, active, partial.data() + begin / BLOCK * size);
    });
    for (int64_t block = 1; block < blocks; ++block)
        for (int64_t j = 0; j < size; ++j) partial.data()[j] += partial.data()[block * size + j];
    for (int v = 0; v < 3; ++v) group.write(partial.data() + v * layout.row(), call.vectors_gradient, v);
}

template <typename T>
void messages_backward(const Backward<T>& call) {
    for_groups(call.heads, call.units, [&](auto layout, int64_t first) {
        using L = decltype(layout);
        T* const kept = call.kept + first / L::HEADS * kept_size(layout, call.nodes, call.hyperedges, call.kept_targets());
        backward_group<T, L::HEADS, L::UNITS>(call, first, kept);
    });
}
